//! Scores all rows of an input: they pass through in chunks, into the predictions table and the file asked for.

use super::predict::PREDICTIONS;
use super::{CaseRun, Model, Work, failed};
use crate::engine::clock::Stopwatch;
use crate::engine::error::RunError;
use crate::engine::key;
use crate::engine::listener::{Progressed, Task};
use crate::engine::predicted::Predicted;
use crate::engine::scoring::apart;
use crate::engine::source::Source;
use crate::plan::{OutputStep, PredictStep};
use crate::stages::score::{FileSink, Layout, MirrorSink, Options, PredictionsSink, Scorer, Sink, Tally};
use crate::stages::{StageError, ingest};
use crate::store::input::{ParquetChunks, Wanted, mirrored, sha256_file};
use crate::store::{CacheEntry, Draft, ModelFile, copy_atomic, peek, read_table, sweep, write_rows};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};

const DRIFT: &str = "drift.parquet";

impl CaseRun<'_, '_> {
    /// The scores of one model, from the cache or computed now, put where they are asked for.
    pub(super) fn score(
        &mut self,
        task: &Task,
        step: &PredictStep,
        model: &Model,
        source: &Source,
    ) -> Result<(String, Predicted), RunError> {
        let fold = task.fold.map_or(0, |(fold, _)| fold);
        if let Some(output) = &step.output {
            apart(&source.step.path, source.files(), output.path()).map_err(failed(task))?;
        }
        let key = key::predict(step, &model.hash, &source.key.hash, fold);
        let entry = self.perform(task, &key, |run, draft| run.score_rows(task, step, model, source, draft))?;
        self.shared.record.add_metrics(task, read_table(&entry.file(DRIFT))?);
        for warning in entry.notes["more"]["warnings"].as_array().into_iter().flatten().filter_map(Json::as_str) {
            self.shared.record.warn(&format!("{task}: {warning}"))?;
        }
        if let Some(output) = &step.output {
            self.place(&entry, source, output)?;
        }
        let (stage, case) = (task.stage.clone(), task.case.clone());
        Ok((key.hash, Predicted::File { path: entry.file(PREDICTIONS), stage, case }))
    }

    fn score_rows(
        &mut self,
        task: &Task,
        step: &PredictStep,
        model: &Model,
        source: &Source,
        draft: &Draft,
    ) -> Result<Work, RunError> {
        let watch = Stopwatch::start();
        let (tally, scorer) = self.stream(task, step, model, source, draft).map_err(failed(task))?;
        source.check_unchanged().map_err(failed(task))?;
        let fold = task.fold.map_or(0, |(fold, _)| fold as i32);
        write_rows(&draft.file(DRIFT), &tally.metrics(scorer.features(), scorer.method(), fold))?;
        let timings = vec![self.shared.record.timing(task, "online", watch.read(), tally.rows as usize)];
        let outcome = format!("{} rows", tally.rows);
        Ok(Work { timings, outcome, notes: json!({ "warnings": tally.warning(step.on_invalid).as_slice() }) })
    }

    fn stream(
        &self,
        task: &Task,
        step: &PredictStep,
        model: &Model,
        source: &Source,
        draft: &Draft,
    ) -> Result<(Tally, Scorer), StageError> {
        let options =
            Options { intervals: step.intervals.clone(), variance: step.variance, on_invalid: step.on_invalid };
        let scorer = match &model.file {
            Some(file) => Scorer::new(file, &model.path, options)?,
            None => Scorer::new(&ModelFile::load(&model.path)?, &model.path, options)?,
        };
        let schema = peek(source.files())?;
        let selection = ingest::selection(&source.step);
        let has = |name: &str| selection.wants(name) && schema.columns().iter().any(|column| column.name == name);
        let named = source.files().first().map_or(source.step.path.as_path(), |file| &file.path).display().to_string();
        let (key, target) = (source.step.key.clone(), source.step.target.clone());
        let others = Wanted { key, target, keep: step.keep.clone(), ..Wanted::default() };
        let wanted = scorer.wanted(&named, has, "add them to `features` of the ingest stage", others)?;
        let chunks = ParquetChunks::open(source.files().to_vec(), schema, &wanted)?;
        let (layout, files) = (Layout::new(&scorer, chunks.columns())?, chunks.files());
        let fold = task.fold.map_or(0, |(fold, _)| fold as i32);
        let mut sinks: Vec<Box<dyn Sink>> =
            vec![Box::new(PredictionsSink::create(&draft.file(PREDICTIONS), layout.clone(), fold)?)];
        match &step.output {
            None => {}
            Some(OutputStep::File(_)) => sinks.push(Box::new(FileSink::create(&draft.file(&part(0)), layout)?)),
            Some(OutputStep::Directory(_)) => {
                let targets = (0..files.len()).map(|index| draft.file(&part(index))).collect();
                sinks.push(Box::new(MirrorSink::new(targets, layout)));
            }
        }
        let total = Some(chunks.rows() as usize);
        let mut progress = |rows: u64| {
            let progressed = Progressed { what: "rows", done: rows as usize, total, chains: None, left: None };
            self.shared.listener.progress(task, &progressed);
            !self.shared.cancel.is_set()
        };
        let tally = scorer.run(chunks, &files, sinks, &mut progress)?;
        Ok((tally, scorer))
    }

    /// Puts the scores where they are asked for; what is there already is left as it is.
    fn place(&mut self, entry: &CacheEntry, source: &Source, output: &OutputStep) -> Result<(), RunError> {
        let targets: Vec<PathBuf> = match output {
            OutputStep::File(path) => vec![path.clone()],
            OutputStep::Directory(directory) => {
                let target = |file: &Path| directory.join(mirrored(&source.step.path, file));
                source.files().iter().map(|file| target(&file.path)).collect()
            }
        };
        for (index, target) in targets.iter().enumerate() {
            sweep(target);
            let from = entry.file(&part(index));
            let wanted = sha256_file(&from)?;
            if sha256_file(target).ok().as_ref() != Some(&wanted) {
                copy_atomic(&from, target)?;
            }
            self.shared.record.add_file(target, wanted);
        }
        Ok(())
    }
}

/// Scores of one input file, or of all, in a cache entry.
fn part(index: usize) -> String {
    format!("scores-{index:05}.parquet")
}
