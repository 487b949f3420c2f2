//! The predict stage of a case: test rows fold by fold. Rows of an input are scored, see `score`.

use super::{CaseRun, Model, Output, Work, failed, lost};
use crate::engine::clock::Stopwatch;
use crate::engine::error::RunError;
use crate::engine::key;
use crate::engine::listener::Task;
use crate::engine::predicted::Predicted;
use crate::engine::source::{Folds, Source};
use crate::plan::{ModelSource, PredictStep, Stage};
use crate::stages::train::TrainedModel;
use crate::stages::{StageError, predict};
use crate::store::model::model_path;
use crate::store::{Draft, ModelFile, read_predictions, read_table, write_predictions, write_rows};
use crate::tables::predictions::PredictionBlock;
use serde_json::Value as Json;
use std::rc::Rc;

pub(super) const PREDICTIONS: &str = "predictions.parquet";
const HIDDEN: &str = "hidden.parquet";

impl<'a> CaseRun<'a, '_> {
    pub(super) fn predict(&mut self, stage: &'a Stage, step: &PredictStep) -> Result<Output, RunError> {
        let (method, models) = self.models(stage, step)?;
        let rows = match self.outputs.get(step.input.as_str()) {
            Some(Output::Source(source)) => Rows::All(Rc::clone(source)),
            Some(Output::Folds(folds)) => Rows::Test(Rc::clone(folds)),
            _ => return Err(lost(&step.input)),
        };
        let (mut keys, mut parts) = (Vec::new(), Vec::new());
        for (fold, model) in (0_u32..).zip(&models) {
            self.shared.check_cancel()?;
            let task = self.task(stage, Some((fold, models.len() as u32)));
            let (hash, predicted) = match &rows {
                Rows::All(source) => self.score(&task, step, model, source)?,
                Rows::Test(folds) => self.predict_fold(&task, step, model, folds)?,
            };
            self.shared.record.add_predictions(predicted.clone());
            keys.push(hash);
            parts.push(predicted);
        }
        Ok(Output::Predictions { method, keys, parts })
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
                let (file, hash) = ModelFile::load_hashed(directory).map_err(|error| failed(&task)(error.into()))?;
                let path = model_path(directory);
                self.shared.record.add_input_file(&path, &hash);
                Ok((file.meta.method.clone(), vec![Model { hash, path, file: Some(Rc::new(file)) }]))
            }
        }
    }

    fn predict_fold(
        &mut self,
        task: &Task,
        step: &PredictStep,
        model: &Model,
        folds: &Folds,
    ) -> Result<(String, Predicted), RunError> {
        let fold = task.fold.map_or(0, |(fold, _)| fold);
        let key = key::predict(step, &model.hash, &folds.key.hash, fold);
        let entry = self.perform(task, &key, |run, draft| run.predict_rows(task, step, model, folds, draft))?;
        let block = read_predictions(&entry.file(PREDICTIONS))?;
        if step.hidden {
            self.shared.record.add_hidden(task, read_table(&entry.file(HIDDEN))?);
        }
        // The cache knows neither stage nor case: another one may have put it there.
        let block = PredictionBlock { stage: task.stage.clone(), case: task.case.clone(), ..block };
        Ok((key.hash, Predicted::Block(Box::new(block))))
    }

    fn predict_rows(
        &mut self,
        task: &Task,
        step: &PredictStep,
        model: &Model,
        folds: &Folds,
        draft: &Draft,
    ) -> Result<Work, RunError> {
        let table = self.load(task, &folds.source)?;
        let fold = task.fold.map_or(0, |(fold, _)| fold);
        let chosen = folds.folds().map_err(failed(task))?;
        let rows = chosen[fold as usize].test.as_slice();
        let watch = Stopwatch::start();
        let context = predict::Context { stage: &task.stage, case: &task.case, fold: fold as i32 };
        let model = ModelFile::load(&model.path)
            .and_then(|file| TrainedModel::from_file(&file, &model.path))
            .map_err(|error| failed(task)(StageError::from(error)))?;
        let block = predict::run(step, &model, &table, rows, &context).map_err(failed(task))?;
        let timings = vec![self.shared.record.timing(task, "online", watch.read(), block.rows())];
        write_predictions(&draft.file(PREDICTIONS), &block)?;
        if step.hidden {
            let hidden = predict::hidden(&model, &table, rows, &context).map_err(failed(task))?;
            write_rows(&draft.file(HIDDEN), &hidden)?;
        }
        Ok(Work { timings, outcome: format!("{} rows", block.rows()), notes: Json::Null })
    }
}

/// The rows to predict.
enum Rows {
    /// All of an input.
    All(Rc<Source>),
    /// Those that each fold keeps for testing.
    Test(Rc<Folds>),
}
