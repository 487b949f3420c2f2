//! From a table to a model without a pipeline file: looks at the columns, chooses methods and sizes, tries them within a time
//! limit, and says in a pipeline file what it did.

mod columns;
mod file;
mod reason;
mod rule;
mod search;
mod source;

pub use columns::{ColumnChoice, ColumnWishes, choose};
pub use file::{FittedPipeline, is_as_written, marked, relative_to};
pub use reason::{OmittedColumn, Reason};
pub use rule::{Candidate, SplitChoice};
pub use search::{FitFailure, FitRequest, METRICS, MethodSearch, Trial, TrialOutcome, best, plan, unseen};
pub use source::{Prepared, name_of, prepare};
