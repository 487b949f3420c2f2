//! `stride-pipe runs prune`.

use super::Where;
use crate::cli::exit::Failure;
use crate::cli::print;
use crate::store::history::{CacheAction, Prune, PruneConditions, Status};
use crate::tables::Timestamp;
use crate::text::{bytes, parse_duration};
use clap::Args as ClapArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};
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
    #[arg(long, value_parser = status())]
    status: Vec<Status>,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

/// What `--status` may ask for; a removal that has begun goes on without being asked.
const STATUSES: [Status; 8] = [
    Status::Succeeded,
    Status::Alarm,
    Status::Failed,
    Status::Interrupted,
    Status::Shard,
    Status::Unfinished,
    Status::Damaged,
    Status::Deleted,
];

fn status() -> impl TypedValueParser<Value = Status> {
    let named = |name: String| STATUSES.into_iter().find(|status| status.name() == name).ok_or("not a status");
    PossibleValuesParser::new(STATUSES.map(Status::name)).try_map(named)
}

/// Microseconds of an age such as `30d`.
fn age(text: &str) -> Result<i64, String> {
    let age = parse_duration(text).ok_or("write a whole number and m, h, d or w: 30d")?;
    Ok(i64::try_from(age.as_micros()).unwrap_or(i64::MAX))
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    let conditions = PruneConditions {
        pipeline: args.place.pipeline.clone(),
        keep: args.keep,
        older_than: args.older_than,
        statuses: args.status.clone(),
    };
    let plan = Prune::plan(&args.place.directory()?, &conditions, Timestamp::now(), args.dry_run)?;
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
    for going in &plan.runs {
        let run = &going.run;
        let pipeline = run.pipeline.as_deref().unwrap_or("unknown pipeline");
        let _ = writeln!(out, "remove  run {} ({pipeline}, {}): {} files", run.id, run.status.name(), going.count());
        for file in &going.foreign {
            let _ = writeln!(out, "keep    {}: not a file of stride-pipe", file.display());
        }
    }
    for kept in &plan.kept_back {
        let _ = writeln!(out, "keep    run {}: {}", kept.id, kept.reason);
    }
    match &plan.cache {
        CacheAction::Keep { reason } => {
            let _ = writeln!(out, "keep    the whole cache: {reason}");
        }
        CacheAction::Sweep => {
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
