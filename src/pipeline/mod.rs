//! The language of pipeline files: text with positions, references, overrides, matrix, diagnostics, JSON Schema.
//!
//! A file becomes a tree of nodes that remember where they stand ([`tree`]); overrides, parameters and the matrix are
//! worked into it ([`load`]); and the tree is checked against the schema that the kinds of stages generate ([`check`]).
//! Every problem found on the way is a [`Diagnostic`], and all of them are reported at once. No stage is known by name
//! here: a [`Kind`] says what may be written, and `stages` has the list of them.

mod check;
mod diagnostic;
mod document;
mod kind;
mod links;
mod load;
mod matrix;
mod merge;
mod overrides;
mod params;
mod path;
mod redact;
mod reference;
mod resolved;
mod schema;
pub mod tree;
mod unused;

pub use check::{NAME_HELP, is_name};
pub use diagnostic::{Diagnostic, Diagnostics, PipelineText};
pub use document::{OneOrMore, Scalar};
pub use kind::{Kind, Preset, find, kind_of};
pub use links::{Link, is_path, text};
pub use load::{CaseSpec, Environment, Language, Loaded, StageSpec};
pub use params::Param;
pub use path::FilePath;
pub use redact::Redactor;
pub use reference::contains as contains_reference;
pub use resolved::{ResolvedStage, resolved_stages};
pub use unused::UsedBy;
