//! Columns of every kind as numbers that a model can take.
//!
//! | module | holds |
//! |---|---|
//! | [`spec`] | what a column is declared or found to be |
//! | [`encoding`] | what columns become: fitted on training rows, applied to any |
//! | [`levels`] | categories by their target: statistics of each level |
//! | [`parts`] | times as age and cyclic parts |
//!
//! Pure: no files, no clock, no logging. A value of any kind is one number on its way here: itself, 0 or 1, the number of a
//! level in a list, or microseconds since 1970; NaN where there is none.

pub mod encoding;
pub mod levels;
pub mod parts;
pub mod spec;

pub use encoding::{ColumnEncoding, Encoder, Encoding, RawRows, SeenValues};
pub use spec::{ColumnKind, FeatureColumn, Missing};
