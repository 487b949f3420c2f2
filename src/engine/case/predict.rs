//! The predict stage of a case: test rows fold by fold, or all rows of an input.

use super::{CaseRun, Model, Output, Work, failed, lost};
use crate::engine::clock::Stopwatch;
use crate::engine::error::RunError;
use crate::engine::key;
use crate::engine::listener::Task;
use crate::engine::source::{Folds, Source};
use crate::plan::{ModelSource, PredictStep, Stage};
use crate::stages::train::TrainedModel;
use crate::stages::{StageError, predict};
use crate::store::input::sha256_file;
use crate::store::model::model_path;
use crate::store::{Draft, ModelFile, read_predictions, write_predictions};
use crate::tables::predictions::PredictionBlock;
use serde_json::Value as Json;
use std::rc::Rc;

const PREDICTIONS: &str = "predictions.parquet";

/// The rows to predict.
struct Rows {
    source: Rc<Source>,
    folds: Option<Rc<Folds>>,
}

impl Rows {
    fn hash(&self) -> &str {
        self.folds.as_ref().map_or(&self.source.key.hash, |folds| &folds.key.hash)
    }
}

impl<'a> CaseRun<'a, '_> {
    pub(super) fn predict(&mut self, stage: &'a Stage, step: &PredictStep) -> Result<Output, RunError> {
        let (method, models) = self.models(stage, step)?;
        let rows = match self.outputs.get(step.input.as_str()) {
            Some(Output::Source(source)) => Rows { source: Rc::clone(source), folds: None },
            Some(Output::Folds(folds)) => Rows { source: Rc::clone(&folds.source), folds: Some(Rc::clone(folds)) },
            _ => return Err(lost(&step.input)),
        };
        let (mut keys, mut blocks) = (Vec::new(), Vec::new());
        for (fold, model) in (0_u32..).zip(&models) {
            self.shared.check_cancel()?;
            let task = self.task(stage, Some((fold, models.len() as u32)));
            let (hash, block) = self.predict_fold(&task, step, model, &rows)?;
            self.shared.record.add_predictions(block.clone());
            keys.push(hash);
            blocks.push(block);
        }
        Ok(Output::Predictions { method, keys, blocks })
    }

    /// The models to predict with, and their method.
    fn models(&mut self, stage: &Stage, step: &PredictStep) -> Result<(String, Vec<Model>), RunError> {
        match &step.model {
            ModelSource::Stage(id) => match self.outputs.get(id.as_str()) {
                Some(Output::Models { method, models }) => Ok(((*method).to_owned(), models.clone())),
                _ => Err(lost(id)),
            },
            ModelSource::Published(directory) => {
                let task = self.task(stage, None);
                let file = ModelFile::load(directory).map_err(|error| failed(&task)(error.into()))?;
                let path = model_path(directory);
                let hash = sha256_file(&path)?;
                self.shared.record.add_input_file(&path, &hash);
                Ok((file.meta.method, vec![Model { hash, path }]))
            }
        }
    }

    fn predict_fold(
        &mut self,
        task: &Task,
        step: &PredictStep,
        model: &Model,
        rows: &Rows,
    ) -> Result<(String, PredictionBlock), RunError> {
        let fold = task.fold.map_or(0, |(fold, _)| fold);
        let key = key::predict(step, &model.hash, rows.hash(), fold);
        let entry = self.perform(task, &key, |run, draft| run.predict_rows(task, step, model, rows, draft))?;
        let block = read_predictions(&entry.file(PREDICTIONS))?;
        // The cache knows neither stage nor case: another one may have put it there.
        Ok((key.hash, PredictionBlock { stage: task.stage.clone(), case: task.case.clone(), ..block }))
    }

    fn predict_rows(
        &mut self,
        task: &Task,
        step: &PredictStep,
        model: &Model,
        rows: &Rows,
        draft: &Draft,
    ) -> Result<Work, RunError> {
        let table = self.load(task, &rows.source)?;
        let fold = task.fold.map_or(0, |(fold, _)| fold);
        let folds = rows.folds.as_ref().map(|folds| folds.folds()).transpose().map_err(failed(task))?;
        let chosen = folds.as_ref().map(|folds| folds[fold as usize].test.as_slice());
        let watch = Stopwatch::start();
        let context = predict::Context { stage: &task.stage, case: &task.case, fold: fold as i32 };
        let block = ModelFile::load(&model.path)
            .and_then(|file| TrainedModel::from_file(&file, &model.path))
            .map_err(StageError::from)
            .and_then(|model| predict::run(step, &model, &table, chosen, &context))
            .map_err(failed(task))?;
        write_predictions(&draft.file(PREDICTIONS), &block)?;
        let timings = vec![self.shared.record.timing(task, "online", watch.read(), block.rows())];
        Ok(Work { timings, outcome: format!("{} rows", block.rows()), notes: Json::Null })
    }
}
