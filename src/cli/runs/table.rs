//! `stride-pipe runs table`.

use super::Where;
use super::published::PublishedFigures;
use crate::cli::exit::{self, Failure};
use crate::cli::grid::Grid;
use crate::cli::{print, print_raw};
use crate::store::history::{Measures, Pivot, PivotCell, TIMED};
use crate::text::nearest;
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// What puts the tables of all stages side by side.
const STAGE: &str = "stage";

/// Arguments of `runs table`.
///
/// A cell is `mean (std)` over the folds. When the variables asked for do not tell all cases apart, the fold values of
/// all cases that fall into a cell are pooled.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The run: its id, the beginning of it, or `last`
    run: String,
    #[command(flatten)]
    place: Where,
    /// A metric, or `offline_s` / `online_s`: seconds of training and of prediction per fold
    #[arg(long)]
    metric: String,
    /// A matrix variable, `method` or `case`
    #[arg(long, default_value = "case", value_name = "VARIABLE")]
    rows: String,
    /// A matrix variable, `method`, `case`, or `stage`: stages side by side; default: one column
    #[arg(long, value_name = "VARIABLE")]
    columns: Option<String>,
    /// Only this stage; default: a table for each
    #[arg(long)]
    stage: Option<String>,
    /// What a cell shows
    #[arg(long, value_enum, default_value_t = Statistic::MeanStd)]
    stat: Statistic,
    /// A CSV file of published figures to put beside the run's: columns named like the variable of the rows, `metric`, `method`
    /// and `value`; lines that begin with `#` are notes
    #[arg(long, value_name = "FILE")]
    published: Option<PathBuf>,
    /// Digits after the point
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(..=17))]
    digits: u8,
    /// How to show it
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    format: TableFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Statistic {
    /// Mean, and the sample standard deviation in brackets
    MeanStd,
    /// Mean ± its standard error
    #[value(name = "mean-se")]
    MeanError,
    /// Mean ± two sample standard deviations
    #[value(name = "mean-2std")]
    MeanTwoStd,
    Mean,
    Std,
    Median,
    Min,
    Max,
    Count,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TableFormat {
    Text,
    Markdown,
    Csv,
}

impl Statistic {
    fn show(self, cell: &PivotCell, digits: usize) -> String {
        let number = |value: f64| format!("{value:.digits$}");
        let with_std = |show: &dyn Fn(f64) -> String| {
            cell.std.map_or_else(|| number(cell.mean), |std| format!("{}{}", number(cell.mean), show(std)))
        };
        match self {
            Self::MeanStd => with_std(&|std| format!(" ({})", number(std))),
            Self::MeanTwoStd => with_std(&|std| format!(" ± {}", number(2.0 * std))),
            Self::MeanError => with_std(&|std| format!(" ± {}", number(std / (cell.count as f64).sqrt()))),
            Self::Mean => number(cell.mean),
            Self::Std => cell.std.map_or_else(|| "-".to_owned(), number),
            Self::Median => number(cell.median),
            Self::Min => number(cell.min),
            Self::Max => number(cell.max),
            Self::Count => cell.count.to_string(),
        }
    }
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    let history = args.place.history()?;
    let run = history.find(&args.run)?;
    let measures = Measures::read(run)?;
    known_metric(&args.metric, &measures.metrics()?)?;
    known("rows", &args.rows, measures.variables())?;
    let variables = measures.variables();
    let side_by_side = args.columns.as_deref() == Some(STAGE) && !variables.iter().any(|name| name == STAGE);
    if let Some(columns) = args.columns.as_ref().filter(|_| !side_by_side) {
        let names: Vec<String> = variables.iter().cloned().chain([STAGE.to_owned()]).collect();
        known("columns", columns, &names)?;
    }
    let mut stages = measures.stages(&args.metric)?;
    if let Some(stage) = &args.stage {
        known("stage", stage, &stages)?;
        stages.retain(|name| name == stage);
    }
    let columns = args.columns.as_deref().filter(|_| !side_by_side);
    let grid = |stage: &String| Ok((stage.clone(), measures.grid(&args.metric, stage, &args.rows, columns)?));
    let mut grids: Vec<(String, Pivot)> = stages.iter().map(grid).collect::<Result<_, Failure>>()?;
    if side_by_side {
        grids = vec![(String::new(), Pivot::beside(grids))];
    }
    let published = match &args.published {
        Some(file) => PublishedFigures::read(file, &args.rows, &args.metric)?,
        None => PublishedFigures::default(),
    };
    let several = grids.len() > 1;
    let mut tables = Vec::new();
    for (stage, grid) in grids {
        // Several tables in one output say which stage each is of, in the corner.
        let corner = if several { format!("{stage}: {}", args.rows) } else { args.rows.clone() };
        let mut shown = Grid::new([corner].into_iter().chain(grid.columns).chain(published.methods()), 1);
        for (row, cells) in grid.rows.into_iter().zip(grid.cells) {
            let cell = |cell: Option<PivotCell>| {
                cell.map_or_else(|| "-".to_owned(), |cell| args.stat.show(&cell, args.digits.into()))
            };
            let figures = published.figures(&row);
            shown.push([row].into_iter().chain(cells.into_iter().map(cell)).chain(figures));
        }
        tables.push(match args.format {
            TableFormat::Text => shown.to_text(0),
            TableFormat::Markdown => shown.to_markdown(),
            TableFormat::Csv => shown.to_csv(),
        });
    }
    let tables = tables.join("\n");
    if let TableFormat::Text = args.format { print(&tables) } else { print_raw(&tables) }
}

/// A run may have stopped before it computed anything but times.
fn known_metric(name: &str, names: &[String]) -> Result<(), Failure> {
    if names.iter().any(|known| known == name || TIMED.iter().all(|(timed, _)| known != timed)) {
        return known("metric", name, names);
    }
    let times = if names.is_empty() { String::new() } else { format!(", only {}", names.join(" and ")) };
    let advice = "run the pipeline to its end, or choose another run (`stride-pipe runs list`)";
    let message = format!("stride-pipe: --metric {name}: this run computed no metrics{times}; {advice}");
    Err(Failure::new(exit::USAGE, message))
}

fn known(option: &str, name: &str, names: &[String]) -> Result<(), Failure> {
    if names.iter().any(|known| known == name) {
        return Ok(());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let near = nearest(name, &names).map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    let message =
        format!("stride-pipe: --{option} {name}: this run has no such thing; {near}it has {}", names.join(", "));
    Err(Failure::new(exit::USAGE, message))
}
