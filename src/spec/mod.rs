//! What the user wrote: the YAML language with positions, references, overrides and its JSON Schema.
//!
//! A file becomes a tree of nodes that remember where they stand ([`tree`]); overrides, parameters and the matrix
//! are worked into it ([`load`]); the tree is checked against the schema that the types in [`language`] generate
//! ([`check`]); and only then does serde turn it into those types. Every problem found on the way is a
//! [`Diagnostic`], and all of them are reported at once.

mod check;
mod diagnostic;
mod gate;
pub mod language;
mod load;
mod matrix;
mod merge;
mod overrides;
mod reference;
mod rules;
pub mod schema;
pub mod tree;

pub use check::{NAME_HELP, is_name};
pub use diagnostic::{Diagnostic, Diagnostics, Source, nearest};
pub use gate::{Comparison, Condition, Gate};
pub use load::{CaseSpec, Environment, Loaded, StageSpec, load};
