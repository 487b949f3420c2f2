//! Scores all rows of an input: they pass through in chunks, into the predictions table and the file asked for.

use super::predicted::{write_calibration, write_transform};
use super::{DRIFT, PREDICTIONS, Predict, watch};
use crate::stages::ingest::Source;
use crate::stages::job::Progress;
use crate::stages::predict::scorer::{
    FileSink, Layout, MirrorSink, Options, PredictionsSink, ScoreOrigin, Scorer, Sink, Tally,
};
use crate::stages::{Collecting, Job, Model, StageError, Work};
use crate::store::input::{ParquetChunks, Wanted, mirrored, sha256_file};
use crate::store::lock::real;
use crate::store::object::is_address;
use crate::store::{InputFile, ModelFile, copy_atomic, peek, sweep, write_rows};
use serde_json::json;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Scores all rows with one model.
pub fn score(stage: &Predict, model: &Model, source: &Source, job: &mut Job<'_, '_>) -> Result<Work, StageError> {
    refuse_overlap(stage, source)?;
    job.spans.phase("online");
    let (tally, scorer) = stream(stage, model, source, job)?;
    source.check_unchanged()?;
    let fold = job.task.fold_number().unwrap_or(0);
    write_rows(
        &job.draft.file(DRIFT),
        &tally.metrics(scorer.features(), &scorer.input_names(), scorer.method(), "score", fold),
    )?;
    let (rows, warnings) = (tally.rows, tally.warning(stage.on_invalid));
    let notes = json!({ "warnings": warnings.as_slice() });
    Ok(Work { rows: rows as usize, outcome: format!("{rows} rows"), notes })
}

fn stream(stage: &Predict, model: &Model, source: &Source, job: &Job<'_, '_>) -> Result<(Tally, Scorer), StageError> {
    let Predict { variance, on_invalid, local, origin, .. } = *stage;
    let options = Options { intervals: stage.levels(), variance, on_invalid, local, origin };
    let (scorer, sha256) = if let Some(file) = &model.file {
        (Scorer::new(file, &model.path, options)?, model.hash.clone())
    } else {
        let (file, sha256) = ModelFile::load_hashed(&model.path)?;
        (Scorer::new(&file, &model.path, options)?, sha256)
    };
    let origin = ScoreOrigin::new(scorer.meta(), sha256, Some(&job.record.run_id));
    let schema = peek(source.files())?;
    let selection = source.stage.selection(&source.demand);
    let has = |name: &str| selection.wants(name) && schema.columns().iter().any(|column| column.name == name);
    let named = source.files().first().map_or(source.stage.path.path(), |file| &file.path).display().to_string();
    let (key, target) = (source.stage.key.clone(), source.stage.target_name().map(str::to_owned));
    let others = Wanted { key, target, keep: stage.keep.clone(), ..Wanted::default() };
    let wanted = scorer.wanted(&named, has, "add them to `features` of the ingest stage", others)?;
    let chunks = ParquetChunks::open(source.files().to_vec(), schema, &wanted)?;
    let (layout, files) = (Layout::new(&scorer, chunks.columns(), origin)?, chunks.files());
    let fold = job.task.fold_number().unwrap_or(0);
    let mut sinks: Vec<Box<dyn Sink>> =
        vec![Box::new(PredictionsSink::create(&job.draft.file(PREDICTIONS), layout.clone(), fold)?)];
    if stage.writes_directory() {
        let targets = (0..files.len()).map(|index| job.draft.file(&part(index))).collect();
        sinks.push(Box::new(MirrorSink::new(targets, layout)));
    } else if stage.output.is_some() {
        sinks.push(Box::new(FileSink::create(&job.draft.file(&part(0)), layout)?));
    }
    let total = Some(chunks.rows() as usize);
    let mut progress = |rows: u64| {
        let progress = Progress { what: "rows", done: rows as usize, total, chains: None };
        job.record.listener.progress(job.task, &progress, None);
        !job.cancel.is_set()
    };
    let tally = scorer.run(chunks, &files, sinks, &mut progress)?;
    write_calibration(&job.draft.file(PREDICTIONS), scorer.calibration())?;
    write_transform(&job.draft.file(PREDICTIONS), scorer.scale().as_ref())?;
    Ok((tally, scorer))
}

fn refuse_overlap(stage: &Predict, source: &Source) -> Result<(), StageError> {
    let Some(output) = &stage.output else { return Ok(()) };
    check_apart(source.stage.path.path(), source.files(), output.path())
}

/// Hands drift to the run, and puts the scores where they are asked for; what is there already is left as it is.
pub fn collect(stage: &Predict, source: &Source, done: &mut Collecting<'_, '_>) -> Result<(), StageError> {
    refuse_overlap(stage, source)?;
    watch(stage, false, done)?;
    for (index, target) in targets(stage, source).iter().enumerate() {
        sweep(target);
        let from = done.entry.file(&part(index));
        let wanted = sha256_file(&from)?;
        if sha256_file(target).ok().as_ref() != Some(&wanted) {
            copy_atomic(&from, target)?;
        }
        done.record.add_file(target, wanted);
    }
    Ok(())
}

/// The files that are asked for, in the order of the input's.
pub fn targets(stage: &Predict, source: &Source) -> Vec<PathBuf> {
    let Some(output) = &stage.output else { return Vec::new() };
    if !stage.writes_directory() {
        return vec![output.path().to_owned()];
    }
    let target = |file: &Path| output.path().join(mirrored(source.stage.path.path(), file));
    source.files().iter().map(|file| target(&file.path)).collect()
}

/// Scores of one input file, or of all, in a cache entry.
fn part(index: usize) -> String {
    format!("scores-{index:05}.parquet")
}

/// Refuses an output that is one of the input files, or lies in the input directory. A directory puts a file in the
/// place of each input file: those are compared too.
pub fn check_apart(input: &Path, files: &[InputFile], output: &Path) -> Result<(), StageError> {
    let real = |path: &Path| real(path).ok();
    let target = real(output);
    let is_above = input.is_dir() || (is_address(input) && files.iter().all(|file| file.path != input));
    let within = is_above && target.as_ref().zip(real(input)).is_some_and(|(target, input)| target.starts_with(input));
    let inputs: HashSet<PathBuf> = files.iter().filter_map(|file| real(&file.path)).collect();
    let mut targets =
        target.into_iter().chain(files.iter().filter_map(|file| real(&output.join(mirrored(input, &file.path)))));
    let same = targets.any(|target| inputs.contains(&target));
    if !within && !same {
        return Ok(());
    }
    Err(StageError::Data {
        what: format!("the output {} lies in the input {}", output.display(), input.display()),
        hint: "write somewhere else: the next run would take scores for rows".to_owned(),
    })
}
