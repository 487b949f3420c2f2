//! The `cases` table: which values a case stands for.

super::table! {
    /// One matrix entry of one case.
    Cases version 1
    pub struct CaseRow {
        /// The run.
        pub run_id: String,
        /// Case, as in every other table.
        pub case: String,
        /// Name in the matrix.
        pub name: String,
        /// Value, as text.
        pub value: String,
    }
}
