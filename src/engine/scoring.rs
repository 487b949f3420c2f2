//! Scoring without a pipeline: one model, one input, one output.

use super::error::RunError;
use super::locks::acquire_all;
use super::scoring_record::ScoringRecord;
use crate::pipeline::Redactor;
use crate::stages::StageError;
use crate::stages::job::{Cancel, Listener, Progress, Spans, Task};
use crate::stages::predict::scorer::{
    FileSink, IpcSink, Layout, MirrorSink, Options, ScoreOrigin, Scorer, Sink, Tally,
};
use crate::stages::predict::{HeldCondition, OnInvalid, Watch, check_apart};
use crate::store::input::{BatchChunks, Chunk, ParquetChunks, Wanted, mirrored};
use crate::store::ipc::IpcReader;
use crate::store::lock::Claims;
use crate::store::model::model_path;
use crate::store::object::check_address;
use crate::store::record::FileRecord;
use crate::store::{ModelFile, RunId, StoreError, discover, peek, sweep};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where rows come from.
#[derive(Clone, Debug)]
pub enum ScoreInput {
    /// A file, a directory or a pattern.
    Path(PathBuf),
    /// An Arrow stream on standard input.
    Stdin,
}

/// Where scores go.
#[derive(Clone, Debug)]
pub enum ScoreOutput {
    File(PathBuf),
    /// A directory with one file per input file.
    Directory(PathBuf),
    /// An Arrow stream on standard output.
    Stdout,
}

/// What is to be scored, with what, and how.
#[derive(Clone, Debug)]
pub struct ScoreRequest {
    /// Directory or file of the model.
    pub model: PathBuf,
    pub input: ScoreInput,
    pub output: ScoreOutput,
    pub key: Option<String>,
    pub keep: Vec<String>,
    pub intervals: Vec<f64>,
    pub variance: bool,
    /// With columns that say where scores come from.
    pub origin: bool,
    /// What happens to rows that the model cannot use.
    pub on_invalid: OnInvalid,
    /// The conditions that are looked at.
    pub watch: Watch,
    /// How long to wait for another writer of the same output.
    pub lock_timeout: Duration,
    /// Where drift is noted, if anywhere.
    pub noting: Option<ScoringRecord>,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct ScoreSummary {
    pub tally: Tally,
    /// The features, in the order of the counts.
    pub features: Vec<String>,
    /// The columns of the input that they are made of.
    pub columns: Vec<String>,
    pub method: String,
    /// What there is to say of the rows, and the conditions that hold.
    pub warnings: Vec<String>,
    pub held: Vec<HeldCondition>,
    /// The run as which it was noted, if it was.
    pub run_id: Option<RunId>,
}

/// Chunks of any input.
type Chunks = Box<dyn Iterator<Item = Result<Chunk, StoreError>> + Send>;

/// Rows to score, and what is known of them.
struct Input {
    chunks: Chunks,
    layout: Layout,
    files: Vec<(PathBuf, u64)>,
}

/// Scores all rows; the output appears when it is whole.
pub fn score(request: &ScoreRequest, cancel: &Cancel, listener: &dyn Listener) -> Result<ScoreSummary, RunError> {
    let task = Task::of_run("score", "predict");
    let mut spans = Spans::open(&task);
    // Before anything is noted: the record of a failure has the paths in it.
    addresses(request).try_for_each(check_address).map_err(|error| failure(&task, error.into(), cancel))?;
    let mut claims = Claims::default();
    match &request.output {
        ScoreOutput::File(path) => claims.add_target(path, false)?,
        ScoreOutput::Directory(path) => claims.add_target(path, true)?,
        ScoreOutput::Stdout => {}
    }
    let _locks = acquire_all(&claims, request.lock_timeout, cancel, listener, &Redactor::default())?;
    spans.phase("online");
    request.noting.as_ref().map_or(Ok(()), ScoringRecord::prepare)?;
    let run_id = request.noting.as_ref().map(ScoringRecord::name_run);
    let scored = score_rows(request, run_id.clone(), (cancel, listener), (&task, &mut spans));
    if let (Err(error), Some(noting), Some(run_id)) = (&scored, &request.noting, &run_id) {
        // The first error is the one to report; a full disk may well prevent the record of it.
        let _ = noting.write_failure(request, error, run_id);
    }
    scored
}

fn addresses(request: &ScoreRequest) -> impl Iterator<Item = &Path> {
    let input = match &request.input {
        ScoreInput::Path(path) => Some(path),
        ScoreInput::Stdin => None,
    };
    let output = match &request.output {
        ScoreOutput::File(path) | ScoreOutput::Directory(path) => Some(path),
        ScoreOutput::Stdout => None,
    };
    [Some(&request.model), input, output].into_iter().flatten().map(PathBuf::as_path)
}

/// What can fail once it is known that nobody else writes there.
fn score_rows(
    request: &ScoreRequest,
    run_id: Option<RunId>,
    (cancel, listener): (&Cancel, &dyn Listener),
    (task, spans): (&Task, &mut Spans),
) -> Result<ScoreSummary, RunError> {
    let failed = |source: StageError| failure(task, source, cancel);
    let options = Options {
        intervals: request.intervals.clone(),
        variance: request.variance,
        on_invalid: request.on_invalid,
        local: true,
        origin: request.origin,
    };
    let (file, sha256) = ModelFile::load_hashed(&request.model).map_err(|error| failed(error.into()))?;
    let scorer = Scorer::new(&file, &request.model, options).map_err(failed)?;
    let origin = ScoreOrigin::new(scorer.meta(), sha256.clone(), run_id.as_ref());
    let Input { chunks, layout, files } = input(request, &scorer, origin).map_err(failed)?;
    let sink = sink(request, layout, &files).map_err(failed)?;
    let total: u64 = files.iter().map(|(_, rows)| rows).sum();
    let mut progress = |rows: u64| {
        let total = Some(total as usize).filter(|total| *total > 0);
        listener.progress(task, &Progress { what: "rows", done: rows as usize, total, chains: None }, None);
        !cancel.is_set()
    };
    let tally = scorer.run(chunks, &files, vec![sink], &mut progress).map_err(failed)?;
    let (features, columns) = (scorer.features().to_vec(), scorer.input_names());
    let method = scorer.method().to_owned();
    let drift = tally.metrics(&features, &columns, &method, "score", 0);
    let mut warnings: Vec<String> = tally.warning(request.on_invalid).into_iter().collect();
    warnings.extend(request.watch.unknown(&drift));
    let held = request.watch.held(&drift);
    let mut summary = ScoreSummary { tally, features, columns, method, warnings, held, run_id: None };
    if let (Some(noting), Some(run_id)) = (&request.noting, run_id) {
        let model = FileRecord { path: model_path(&request.model).display().to_string(), sha256, rows: None };
        noting.write(request, &summary, model, (&run_id, spans))?;
        summary.run_id = Some(run_id);
    }
    Ok(summary)
}

/// What ended a task; one that stopped because it was told to did not fail.
fn failure(task: &Task, source: StageError, cancel: &Cancel) -> RunError {
    match (source, cancel.signal()) {
        (StageError::Interrupted { kept }, Some(signal)) => RunError::Interrupted { signal, kept },
        (source, _) => RunError::Stage { task: Box::new(task.clone()), source },
    }
}

fn input(request: &ScoreRequest, scorer: &Scorer, origin: ScoreOrigin) -> Result<Input, StageError> {
    let others = Wanted { key: request.key.clone(), keep: request.keep.clone(), ..Wanted::default() };
    let hint = "give an input that has them; their order does not matter";
    match &request.input {
        ScoreInput::Path(path) => {
            let files = discover(path)?;
            // Scores must not replace rows, nor become rows of the next time.
            if let ScoreOutput::File(output) | ScoreOutput::Directory(output) = &request.output {
                check_apart(path, &files, output)?;
            }
            let schema = peek(&files)?;
            let named =
                files.first().map_or_else(|| path.display().to_string(), |file| file.path.display().to_string());
            let has = |name: &str| schema.columns().iter().any(|column| column.name == name);
            let wanted = scorer.wanted(&named, has, hint, others)?;
            let chunks = ParquetChunks::open(files, schema, &wanted)?;
            let (layout, files) = (Layout::new(scorer, chunks.columns(), origin)?, chunks.files());
            Ok(Input { chunks: Box::new(chunks), layout, files })
        }
        ScoreInput::Stdin => {
            let name = Path::new("standard input");
            let reader = IpcReader::open(BufReader::with_capacity(1 << 16, std::io::stdin()), name)?;
            let schema = reader.schema();
            let has = |column: &str| schema.column_with_name(column).is_some();
            let wanted = scorer.wanted("standard input", has, hint, others)?;
            let chunks = BatchChunks::new(name, &schema, reader, &wanted)?;
            let layout = Layout::new(scorer, chunks.columns(), origin)?;
            Ok(Input { chunks: Box::new(chunks), layout, files: vec![(name.to_owned(), 0)] })
        }
    }
}

fn sink(request: &ScoreRequest, layout: Layout, files: &[(PathBuf, u64)]) -> Result<Box<dyn Sink>, StageError> {
    Ok(match &request.output {
        ScoreOutput::File(path) => {
            sweep(path);
            Box::new(FileSink::create(path, layout)?)
        }
        ScoreOutput::Directory(directory) => {
            let input = match &request.input {
                ScoreInput::Path(path) => path.as_path(),
                ScoreInput::Stdin => Path::new("scores.parquet"),
            };
            let target = |(file, _): &(PathBuf, u64)| match &request.input {
                ScoreInput::Path(_) => directory.join(mirrored(input, file)),
                ScoreInput::Stdin => directory.join(input),
            };
            let targets: Vec<PathBuf> = files.iter().map(target).collect();
            for target in &targets {
                sweep(target);
            }
            Box::new(MirrorSink::new(targets, layout))
        }
        ScoreOutput::Stdout => {
            let stdout = BufWriter::with_capacity(1 << 16, std::io::stdout());
            Box::new(IpcSink::open(stdout, Path::new("standard output"), layout)?)
        }
    })
}
