//! The mixture as named numbers, and back.
//!
//! | name | shape | holds |
//! |---|---|---|
//! | `design` | 1 × 7 | hidden layers, hidden length, fitted length, bounds, variance and length of the bottom covariance |
//! | `x_centre`, `centre`, `projection`, `knots` | | as in the design |
//! | `anchors` | r × d | features of the anchors of hidden layers |
//! | `top` | m × d | features of the inducing points, or of all training rows |
//! | `y`, `row_weights`, `row_noise` | 1 × n | targets, for an exact top layer only, and what is known of their noise |
//! | `p<s>.weights.<l>`, `p<s>.below.<l>` | r × D | a hidden layer's weights, and (upper layers) inputs at the anchors |
//! | `p<s>.u.<l>` | 1 × T | injective: u at the knots |
//! | `p<s>.top`, `.alpha`, `.lower`, `.lower_b` | | inputs of the top layer at its rows, and its factors |

use std::collections::BTreeMap;

use ndarray::Array2;

use super::component::{Bottom, Component, Extension, UpperLayer};
use super::{ChainDiagnostics, DeepParts, Design};
use crate::gp::GpError;
use crate::gp::deep::em::DeepFit;
use crate::gp::deep::hidden::MonotoneMap;
use crate::gp::deep::knots::Knots;
use crate::gp::deep::options::{Architecture, PriorMean};
use crate::gp::deep::sampler::Chain;
use crate::gp::deep::top::{self, as_row};

/// New rows pass through every hidden layer.
const LAYERED: &str = "layered";
/// One interpolation from the inducing points stands for all hidden layers.
const INTERPOLATED: &str = "interpolated";

/// The parts of the model at the end of a fit.
pub(super) fn of_fit(fit: &DeepFit<'_>) -> Result<DeepParts, GpError> {
    let design = &fit.problem.design;
    let top = fit.problem.top;
    let mut numbers = BTreeMap::new();
    let interpolated = fit.problem.hidden.representation.follows_inducing();
    let bottom =
        if interpolated { (fit.problem.start.variance, fit.problem.start.lengths[0]) } else { (1.0, design.length) };
    let scalars = [
        design.layers as f64,
        design.length,
        design.start_length,
        design.bounds.0,
        design.bounds.1,
        bottom.0,
        bottom.1,
    ];
    numbers.insert("design".to_owned(), as_row(&scalars));
    numbers.insert("x_centre".to_owned(), as_row(&design.x_centre));
    numbers.insert("centre".to_owned(), as_row(&design.centre));
    if let Some(projection) = &design.projection {
        numbers.insert("projection".to_owned(), projection.clone());
    }
    match &design.knots {
        Some(knots) => drop(numbers.insert("knots".to_owned(), as_row(&knots.at))),
        None => drop(numbers.insert("anchors".to_owned(), fit.problem.hidden.anchors.x.clone())),
    }
    let top_rows = if top.keeps_rows() { top.rows(fit.problem.rows.all(), &fit.problem.inducing) } else { Vec::new() };
    if top.keeps_rows() {
        numbers.insert("top".to_owned(), fit.problem.rows.pick(&top_rows)?.x);
    }
    let shared = top.shared_numbers(fit.problem.y.view(), &fit.problem.noise).into_iter();
    numbers.extend(shared.map(|(name, values)| (name.to_owned(), values)));
    for (index, xi) in fit.states().enumerate() {
        add_particle(fit, index, xi, &top_rows, &mut numbers)?;
    }
    let words = [
        ("architecture", design.architecture.name()),
        ("prior_mean", if design.prior_mean == PriorMean::Zero { "zero" } else { "identity" }),
        ("top", top.name()),
        ("hidden", if interpolated { INTERPOLATED } else { LAYERED }),
    ];
    let count = fit.chains.len().max(1) as f64;
    Ok(DeepParts {
        kernel: design.kernel,
        hyper: fit.problem.hyper.clone(),
        inducing: fit.problem.inducing.clone(),
        words: words.into_iter().map(|(name, word)| (name.to_owned(), word.to_owned())).collect(),
        numbers,
        bound: fit.chains.iter().map(Chain::bound).sum::<Option<f64>>().map(|total| total / count),
        log_likelihood: fit.chains.iter().map(Chain::log_likelihood).sum::<f64>() / count,
        diagnostics: ChainDiagnostics::new(&fit.frozen, fit.shown.len(), fit.problem.jitter),
        local: None,
    })
}

fn add_particle(
    fit: &DeepFit<'_>,
    index: usize,
    xi: &[Array2<f64>],
    top_rows: &[usize],
    numbers: &mut BTreeMap<String, Array2<f64>>,
) -> Result<(), GpError> {
    let (design, hidden) = (&fit.problem.design, &fit.problem.hidden);
    let target = fit.problem.target();
    let prepared = target.prepare(xi)?;
    let mut add = |name: &str, value: Array2<f64>| drop(numbers.insert(format!("p{index:04}.{name}"), value));
    if design.knots.is_some() {
        let maps = prepared.layers.iter().filter_map(|layer| layer.map.as_ref());
        maps.enumerate().for_each(|(level, map)| add(&format!("u.{level}"), as_row(&map.u.to_vec())));
    } else {
        let start = &fit.problem.start;
        for (name, values) in hidden.representation.for_new_rows(hidden, design, (&prepared, xi), start)? {
            add(&name, values);
        }
    }
    if fit.problem.top.keeps_rows() {
        let rows = hidden.list(&fit.problem.design, &fit.problem.rows, top_rows)?;
        add("top", target.forward(&prepared, &rows, false)?.inputs);
    }
    fit.problem.top.numbers(&target, &prepared)?.into_iter().for_each(|(name, values)| add(name, values));
    Ok(())
}

/// Whether one interpolation stands for all hidden layers.
pub(super) fn is_interpolated(parts: &DeepParts) -> bool {
    parts.words.get("hidden").is_some_and(|hidden| hidden == INTERPOLATED)
}

/// What a set of parts describes, checked.
pub(super) fn restore(parts: &DeepParts) -> Result<(Design, Option<Bottom>, Vec<Component>), GpError> {
    let reader = PartsReader { parts };
    if let Some(name) =
        parts.numbers.iter().find(|(_, values)| !values.iter().all(|v| v.is_finite())).map(|(name, _)| name)
    {
        return Err(GpError::value(format!("`{name}` holds NaN or an infinite value")));
    }
    let (design, scale) = reader.design()?;
    parts.hyper.check(design.width())?;
    if parts.hyper.lengths.len() != 1 {
        return Err(GpError::shape("a deep model has one correlation length"));
    }
    let bottom = if design.knots.is_none() { Some(reader.bottom(&design, scale)?) } else { None };
    let mut components = Vec::new();
    let has = |particle: usize| {
        let prefix = format!("p{particle:04}.");
        parts.numbers.range(prefix.clone()..).next().is_some_and(|(name, _)| name.starts_with(&prefix))
    };
    while has(components.len()) {
        components.push(reader.component(&design, components.len())?);
    }
    if components.is_empty() {
        return Err(GpError::shape("a mixture without particles"));
    }
    // A particle that has lost a part must not pass for one that was never there.
    let known = |name: &str| {
        let index = name.strip_prefix('p').and_then(|rest| rest.split_once('.')?.0.parse::<usize>().ok());
        index.is_some_and(|index| index < components.len())
    };
    let of_rows = ["top", "y", top::ROW_WEIGHTS, top::ROW_NOISE];
    let shared = ["design", "x_centre", "centre", "projection", "knots", "anchors"];
    if let Some(name) =
        parts.numbers.keys().find(|name| !shared.iter().chain(&of_rows).any(|own| own == name) && !known(name))
    {
        return Err(GpError::shape(format!("`{name}` belongs to no particle")));
    }
    Ok((design, bottom, components))
}

/// Parts by name, with the shape that is expected of them.
pub(in crate::gp::deep) struct PartsReader<'a> {
    parts: &'a DeepParts,
}

impl PartsReader<'_> {
    pub fn matrix(&self, name: &str, rows: Option<usize>, columns: Option<usize>) -> Result<Array2<f64>, GpError> {
        let found = self.parts.numbers.get(name).ok_or_else(|| GpError::shape(format!("`{name}` is missing")))?;
        let (r, c) = found.dim();
        if rows.is_some_and(|rows| rows != r) || columns.is_some_and(|columns| columns != c) || found.is_empty() {
            return Err(GpError::shape(format!("`{name}` is {r} × {c}")));
        }
        Ok(found.as_standard_layout().into_owned())
    }

    pub fn has(&self, name: &str) -> bool {
        self.parts.numbers.contains_key(name)
    }

    fn row(&self, name: &str) -> Result<Vec<f64>, GpError> {
        self.matrix(name, Some(1), None).map(|row| row.into_iter().collect())
    }

    pub fn word(&self, name: &str) -> Result<&str, GpError> {
        self.parts.words.get(name).map(String::as_str).ok_or_else(|| GpError::value(format!("`{name}` is missing")))
    }

    fn design(&self) -> Result<(Design, (f64, f64)), GpError> {
        let word = self.word("architecture")?;
        let architecture = Architecture::ALL.into_iter().find(|known| known.name() == word);
        let architecture = architecture.ok_or_else(|| GpError::value(format!("architecture `{word}`")))?;
        let prior_mean = match self.word("prior_mean")? {
            "zero" => PriorMean::Zero,
            "identity" => PriorMean::Identity,
            other => return Err(GpError::value(format!("prior mean `{other}`"))),
        };
        let scalars = self.row("design")?;
        let [layers, length, start_length, u_min, u_max, variance, bottom_length] = scalars[..] else {
            return Err(GpError::shape("`design` has seven numbers"));
        };
        if scalars.iter().any(|value| *value <= 0.0) || !(1.0..=1000.0).contains(&layers) || layers.fract() != 0.0 {
            return Err(GpError::value("the numbers of `design` are positive, the first is a number of layers"));
        }
        let x_centre = self.row("x_centre")?;
        let centre = self.row("centre")?;
        let projection = if self.has("projection") {
            Some(self.matrix("projection", Some(x_centre.len()), Some(centre.len()))?)
        } else {
            None
        };
        let width = if architecture == Architecture::Convolution { 1 } else { x_centre.len() };
        if projection.is_none() && centre.len() != width {
            return Err(GpError::shape("`centre` has the width of hidden layers"));
        }
        let knots = if architecture == Architecture::Injective {
            let at = self.row("knots")?;
            if !at.is_sorted_by(|a, b| a < b) || x_centre.len() != 1 {
                return Err(GpError::value("knots are increasing, and for one feature"));
            }
            Some(Knots::new(at, u_min))
        } else {
            None
        };
        let design = Design {
            architecture,
            kernel: self.parts.kernel,
            // A top layer with a kernel of its own is a local layer in a model.
            top_kernel: self.parts.kernel,
            layers: layers as usize,
            prior_mean,
            length,
            start_length,
            bounds: (u_min, u_max),
            x_centre,
            projection,
            centre,
            knots,
        };
        Ok((design, (variance, bottom_length)))
    }

    fn bottom(&self, design: &Design, scale: (f64, f64)) -> Result<Bottom, GpError> {
        let x = self.matrix("anchors", None, Some(design.x_centre.len()))?;
        let anchors = crate::gp::deep::Warped::stationary(design.kernel, scale, x.view(), &design.x_centre)?;
        Ok(Bottom { scale, anchors })
    }

    fn component(&self, design: &Design, index: usize) -> Result<Component, GpError> {
        let name = |what: &str| format!("p{index:04}.{what}");
        let hidden = match &design.knots {
            Some(knots) => Extension::Maps(
                (0..design.layers)
                    .map(|level| {
                        let u = self.matrix(&name(&format!("u.{level}")), Some(1), None)?;
                        let map = (u.len() == knots.at.len()).then(|| MonotoneMap::new(design, u)).flatten();
                        map.ok_or_else(|| GpError::shape("as many slopes as knots"))
                    })
                    .collect::<Result<_, _>>()?,
            ),
            None => self.layered(design, index)?,
        };
        Ok(Component { hidden, top: self.top(design, name)?.into(), local: None })
    }

    fn layered(&self, design: &Design, index: usize) -> Result<Extension, GpError> {
        let x = self.matrix("anchors", None, Some(design.x_centre.len()))?;
        let (r, width) = (x.nrows(), design.width());
        let count = match self.word("hidden")? {
            LAYERED => design.layers,
            INTERPOLATED => 1,
            other => return Err(GpError::value(format!("hidden layers `{other}`"))),
        };
        let weights = |level: usize| self.matrix(&format!("p{index:04}.weights.{level}"), Some(r), Some(width));
        let mut layers = Vec::new();
        for level in 1..count {
            let below = self.matrix(&format!("p{index:04}.below.{level}"), Some(r), Some(width))?;
            layers.push(UpperLayer { anchors: design.hidden(x.view(), below.view())?, weights: weights(level)? });
        }
        Ok(Extension::Layered { first: weights(0)?, layers })
    }

    fn top(&self, design: &Design, name: impl Fn(&str) -> String) -> Result<Box<dyn top::Posterior>, GpError> {
        let hyper = &self.parts.hyper;
        let covariance = || {
            let x = self.matrix("top", None, Some(design.x_centre.len()))?;
            let inputs = self.matrix(&name("top"), Some(x.nrows()), Some(design.width()))?;
            design.top(x.view(), inputs.view(), hyper)
        };
        top::restore(self, &name, covariance, hyper)
    }
}
