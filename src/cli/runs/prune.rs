//! `stride-pipe runs prune`.

use super::Where;
use crate::cli::exit::Failure;
use crate::cli::print;
use crate::store::history::{CacheFate, Prune, Selection, Status};
use crate::tables::Timestamp;
use crate::text::{bytes, parse_duration};
use clap::{Args as ClapArgs, ValueEnum};
use std::fmt::Write as _;

/// Arguments of `runs prune`.
///
/// Removes the runs that meet all conditions given, and then whatever of the cache no remaining run used. Without a
/// condition no run is removed. Runs that did not end are removed only when asked for by `--status`, and a day after
/// their last sign of life.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    place: Where,
    /// Keep the N newest runs of each pipeline that succeeded, and all that are newer than the oldest of them
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Only runs that started longer ago: `30d`, `12h`, `2w`
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<i64>,
    /// Only runs that ended so; may be given several times
    #[arg(long, value_enum)]
    status: Vec<Ending>,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Ending {
    Succeeded,
    Failed,
    Interrupted,
    Unfinished,
    Damaged,
    Deleted,
}

impl From<Ending> for Status {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Succeeded => Self::Succeeded,
            Ending::Failed => Self::Failed,
            Ending::Interrupted => Self::Interrupted,
            Ending::Unfinished => Self::Unfinished,
            Ending::Damaged => Self::Damaged,
            Ending::Deleted => Self::Deleted,
        }
    }
}

/// Microseconds of an age such as `30d`.
fn age(text: &str) -> Result<i64, String> {
    let age = parse_duration(text).ok_or("write a whole number and m, h, d or w: 30d")?;
    Ok(i64::try_from(age.as_micros()).unwrap_or(i64::MAX))
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    let selection = Selection {
        pipeline: args.place.pipeline.clone(),
        keep: args.keep,
        older_than: args.older_than,
        statuses: args.status.iter().map(|status| (*status).into()).collect(),
    };
    let plan = Prune::plan(&args.place.directory()?, &selection, Timestamp::now(), args.dry_run)?;
    print(&describe(&plan))?;
    let (runs, entries, freed) = (plan.runs.len(), plan.entries.len(), bytes(plan.bytes));
    if args.dry_run {
        return print(&format!("dry run: {runs} run(s), {entries} cache entries, {freed} would go\n"));
    }
    let removal = plan.perform()?;
    let files = removal.files;
    print(&format!("removed {runs} run(s) with {files} files, {entries} cache entries; {freed} freed\n"))
}

fn describe(plan: &Prune) -> String {
    let mut out = String::new();
    for doomed in &plan.runs {
        let run = &doomed.run;
        let pipeline = run.pipeline.as_deref().unwrap_or("unknown pipeline");
        let _ =
            writeln!(out, "remove  run {} ({pipeline}, {}): {} files", run.id, run.status.name(), doomed.files.len());
        for file in &doomed.foreign {
            let _ = writeln!(out, "keep    {}: not a file of stride-pipe", file.display());
        }
    }
    for kept in &plan.kept_back {
        let _ = writeln!(out, "keep    run {}: {}", kept.id, kept.reason);
    }
    match &plan.cache {
        CacheFate::LeftAlone { reason } => {
            let _ = writeln!(out, "keep    the whole cache: {reason}");
        }
        CacheFate::Swept => {
            if !plan.entries.is_empty() {
                let _ = writeln!(out, "remove  {} cache entries that no other run used", plan.entries.len());
            }
            for leftover in &plan.leftovers {
                let _ = writeln!(out, "remove  {}: left by a run that was killed", leftover.display());
            }
        }
    }
    let _ = writeln!(out, "keep    {} run(s)", plan.kept);
    out
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn ages() {
        assert_eq!(age("30d"), Ok(30 * 86_400_000_000));
        assert_eq!(age("90m"), Ok(5_400_000_000));
        // Longer than the clock goes: nothing is that old.
        assert_eq!(age("4000000000w"), Ok(i64::MAX));
        for bad in ["", "d", "30", "-1d", "1.5h", "3é"] {
            assert!(age(bad).is_err(), "{bad}");
        }
    }
}
