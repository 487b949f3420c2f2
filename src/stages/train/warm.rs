//! `start_from`: training that starts from a published model.
//!
//! Which model that is, is decided when the work is planned, and is part of its key. A model that this very work has
//! published is not a start for it: a run that is repeated finds what it did, and does nothing.

use super::Train;
use super::predictor::Predictor;
use crate::eval::transform::Transform;
use crate::gp::deep::{Architecture, DeepStart};
use crate::gp::kernel::Hyper;
use crate::gp::neighbours::LocalParts;
use crate::gp::scaling::{Rescaling, Scaling};
use crate::gp::warm::{LocalStart, WarmStart};
use crate::pipeline::FilePath;
use crate::stages::job::Key;
use crate::stages::train::TrainedModel;
use crate::stages::{Said, StageError};
use crate::store::input::sha256_file;
use crate::store::model::{StartedFrom, model_path, versions};
use crate::store::{Cache, InputTable, MODEL_FILE, ModelFile, StoreError};
use ndarray::{Array2, Axis};
use std::path::{Path, PathBuf};

/// The published model that training starts from.
#[derive(Debug)]
pub struct StartModel {
    /// SHA-256 of its file.
    pub sha256: String,
    pub path: PathBuf,
    /// None where it is gone, and so is the need for it: what was made of it is in the cache.
    pub file: Option<ModelFile>,
}

/// The model that the stage starts from, given what its work depends on without one; none where nothing is published yet,
/// or just what this work made of nothing.
pub fn find(
    stage: &Train,
    without: &[Key],
    with: &dyn Fn(&str) -> Result<Vec<Key>, StageError>,
    cache: &Cache,
) -> Result<Option<StartModel>, StageError> {
    let Some(directory) = stage.start_from.as_ref().map(FilePath::path) else { return Ok(None) };
    let Some((file, sha256)) = load(directory)? else { return Ok(None) };
    let made_by = file.meta.started.as_ref().filter(|start| without.iter().any(|key| key.hash == start.work));
    match made_by.map(|start| start.sha256.clone()) {
        Some(None) => return Ok(None),
        Some(Some(earlier)) => {
            if let Some(start) = earlier_version(directory, &earlier)? {
                return Ok(Some(start));
            }
            if with(&earlier)?.iter().all(|key| cache.file(&key.hash, MODEL_FILE).is_file()) {
                return Ok(Some(StartModel { sha256: earlier, path: directory.to_owned(), file: None }));
            }
        }
        None => {}
    }
    check_model(stage, &file, directory)?;
    Ok(Some(StartModel { sha256, path: model_path(directory), file: Some(file) }))
}

/// A published model, with the hash of its bytes; none where there is none yet.
fn load(directory: &Path) -> Result<Option<(ModelFile, String)>, StageError> {
    match ModelFile::load_hashed(directory) {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::Missing { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn earlier_version(directory: &Path, sha256: &str) -> Result<Option<StartModel>, StageError> {
    for version in versions(directory)? {
        if sha256_file(&version.path).is_ok_and(|found| found == sha256) {
            let (sha256, file) = (sha256.to_owned(), ModelFile::load(&version.path)?);
            return Ok(Some(StartModel { sha256, path: version.path, file: Some(file) }));
        }
    }
    Ok(None)
}

/// Whether there is a model to start from now.
pub fn is_there(stage: &Train) -> bool {
    stage.start_from.as_ref().is_some_and(|directory| model_path(directory.path()).is_file())
}

/// What a model file says of how its training began.
pub fn started(stage: &Train, work: &Key, start: Option<&StartModel>) -> Option<StartedFrom> {
    let sha256 = start.map(|start| start.sha256.clone());
    stage.start_from.as_ref().map(|_| StartedFrom { work: work.hash.clone(), sha256 })
}

const HINT: &str =
    "leave `start_from` out to train from scratch, or publish the new kind of model to a directory of its own";

fn refuse(path: &Path, what: &str) -> StageError {
    StageError::Data { what: format!("`start_from`: the model {} {what}", path.display()), hint: HINT.to_owned() }
}

/// Work that was asked for again although nothing changed, whose start was kept no longer.
pub fn gone(path: &Path) -> StageError {
    StageError::Data {
        what: format!(
            "`start_from`: the version of {} that this training started from is not kept any more",
            path.display()
        ),
        hint: "run without `--force`: its result is in the cache; `publish_keep` says how many versions are kept"
            .to_owned(),
    }
}

/// Refuses a model of another kind.
fn check_model(stage: &Train, file: &ModelFile, path: &Path) -> Result<(), StageError> {
    let (method, kernel) = (stage.method.name(), stage.kernel.to_string());
    if file.meta.method != method {
        return Err(refuse(
            path,
            &format!("was trained with `method: {}`, and this stage has {method}", file.meta.method),
        ));
    }
    if file.meta.kernel != kernel {
        return Err(refuse(path, &format!("has `kernel: {}`, and this stage has {kernel}", file.meta.kernel)));
    }
    Ok(())
}

/// The columns of the table in the order of the model's features, if they are the same.
fn columns(file: &ModelFile, names: &[String], path: &Path) -> Result<Vec<usize>, StageError> {
    let known = &TrainedModel::from_file(file, path)?.input_names();
    let missing = |these: &[String], those: &[String]| {
        let missing: Vec<&str> = these.iter().filter(|name| !those.contains(name)).map(String::as_str).collect();
        missing.join(", ")
    };
    let (gone, new) = (missing(known, names), missing(names, known));
    if !gone.is_empty() || !new.is_empty() {
        let said = [("needs", gone), ("does not know", new)];
        let said: Vec<String> = said
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what} the feature(s) {names}"))
            .collect();
        return Err(refuse(path, &said.join(" and ")));
    }
    Ok(known.iter().filter_map(|name| names.iter().position(|other| other == name)).collect())
}

/// What `validate --data` looks at.
pub fn look(stage: &Train, table: &InputTable) -> Result<Said, StageError> {
    let Some(directory) = stage.start_from.as_ref().map(FilePath::path) else { return Ok(Said::default()) };
    let Some((file, _)) = load(directory)? else { return Ok(Said::default()) };
    check_model(stage, &file, directory)?;
    columns(&file, &table.feature_names, directory)?;
    begin(stage, &file, directory).map(|_| Said::default())
}

/// The table with its features in the order of the model's.
pub fn in_order(table: &InputTable, file: &ModelFile, path: &Path) -> Result<InputTable, StageError> {
    let columns = columns(file, &table.feature_names, path)?;
    let mut ordered = table.clone();
    ordered.feature_names = columns.iter().map(|column| table.feature_names[*column].clone()).collect();
    ordered.columns = columns.iter().map(|column| table.columns[*column].clone()).collect();
    ordered.levels = columns.iter().map(|column| table.levels[*column].clone()).collect();
    ordered.features = table.features.select(Axis(1), &columns);
    Ok(ordered)
}

/// Said where a model is of no use for new rows.
pub const FROM_SCRATCH: &str = "`start_from`: columns have become other features than those of the published model (levels of \
     categories, parts of dates), or the target's scale has changed; trained from scratch";

/// A published model from which training starts, before it is known how the new rows are scaled.
#[derive(Debug)]
pub struct Beginning {
    predictor: Predictor,
    scaling: Scaling,
    relevance: Vec<f64>,
    feature_names: Vec<String>,
    transform: Option<Transform>,
}

/// The model in the file, if hidden layers of the stage can start from it.
pub fn begin(stage: &Train, file: &ModelFile, path: &Path) -> Result<Beginning, StageError> {
    let TrainedModel { predictor, scaling, relevance, feature_names, transform, .. } =
        TrainedModel::from_file(file, path)?;
    if let Predictor::Deep { gp, .. } = &predictor {
        let (architecture, layers, width) = gp.layout();
        let (wanted, wanted_layers) = (stage.deep.architecture, stage.deep.layers as usize - 1);
        let wanted_width = match wanted {
            Architecture::Composition => stage.deep.width.map_or(file.meta.feature_names.len(), |width| width as usize),
            Architecture::Convolution | Architecture::Injective => 1,
        };
        let differs = |what: &str, found: String, wanted: String| {
            Err(refuse(path, &format!("has `deep.{what}: {found}`, and this stage has {wanted}")))
        };
        if architecture != wanted {
            return differs("architecture", architecture.name().to_owned(), wanted.name().to_owned());
        }
        if layers != wanted_layers {
            return differs("layers", (layers + 1).to_string(), stage.deep.layers.to_string());
        }
        if width != wanted_width {
            return differs("width", width.to_string(), wanted_width.to_string());
        }
        let by_neighbours = gp.parts().words.get("top").is_some_and(|top| top == "neighbours");
        if by_neighbours != stage.top.is_some() {
            let of = |by_neighbours: bool| if by_neighbours { "a top layer by neighbours" } else { "inducing points" };
            return Err(refuse(
                path,
                &format!("has {}, and this stage {}", of(by_neighbours), of(stage.top.is_some())),
            ));
        }
    }
    Ok(Beginning { predictor, scaling, relevance, feature_names, transform })
}

impl Beginning {
    /// Whether new rows become the same features and targets as the model's: categories may have other levels by now.
    pub fn fits(&self, feature_names: &[String], transform: Option<Transform>) -> bool {
        let scale = |transform: Option<Transform>| transform.map(|transform| std::mem::discriminant(&transform));
        self.feature_names == feature_names && scale(self.transform) == scale(transform)
    }

    /// What its features were multiplied by for their relevance; empty where all count the same.
    pub fn relevance(&self) -> &[f64] {
        &self.relevance
    }

    /// What it knows, for rows that are scaled like this.
    pub fn in_units_of(self, scaling: &Scaling) -> Option<WarmStart> {
        let units = Rescaling::between(&self.scaling, scaling);
        match self.predictor {
            Predictor::Gp { gp, .. } => {
                let inducing = Array2::zeros((0, 0));
                Some(WarmStart { hyper: units.hyper(gp.hyper()), inducing, local: None, deep: None })
            }
            Predictor::Sparse { gp, .. } => {
                let inducing = units.to_new(gp.parts().x_m.view());
                // Its neighbours are looked for in features divided by their lengths, which have no unit.
                let local = gp.parts().local.as_ref().map(|local| local_start(local, &units, 1.0));
                Some(WarmStart { hyper: units.hyper(gp.hyper()), inducing, local, deep: None })
            }
            Predictor::Deep { gp, .. } => {
                let deep = DeepStart::new((*gp).clone(), units.clone());
                let local = gp.parts().local.as_ref().map(|local| local_start(local, &units, deep.length_of_top()));
                Some(WarmStart { hyper: deep.hyper(), inducing: deep.inducing(), local, deep: Some(deep) })
            }
            Predictor::Baseline(_) => None,
        }
    }
}

fn local_start(local: &LocalParts, units: &Rescaling, length: f64) -> LocalStart {
    let hyper = |row: ndarray::ArrayView1<'_, f64>| {
        Hyper::isotropic(units.variance(row[0]), row[1] * length, units.variance(row[2]))
    };
    LocalStart { kernel: local.kernel, hyper: local.hyper.rows().into_iter().map(hyper).collect() }
}
