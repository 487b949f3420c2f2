//! What the layers are, fixed for a whole fit: how values of one layer become the covariance of the next.
//!
//! The *values* of a hidden layer are f (composition, convolution) or u (injective); its *inputs* to the next layer
//! are f, f and the map g of u.

use ndarray::{Array2, ArrayView1, ArrayView2, Axis};

use super::knots::{self, Knots, Spot};
use super::options::{Architecture, DeepOptions, PriorMean};
use super::warped::Warped;
use crate::gp::GpError;
use crate::gp::kernel::{Hyper, Kernel, column_means};
use crate::gp::linalg::{Span, add_gram, eigenvectors, gemm_nn, means_over};
use crate::gp::neighbours::Places;

/// Smallest slope's root of the injective architecture, unless given.
const SMALLEST_SLOPE: f64 = 0.3;
/// Local lengths of the convolution architecture stay within this factor of the fitted length, unless given.
const LENGTH_RANGE: f64 = 10.0;

/// The layers of a deep model, but for the numbers that are sampled.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Design {
    pub architecture: Architecture,
    /// Of the hidden layers.
    pub kernel: Kernel,
    /// Of the top layer.
    pub top_kernel: Kernel,
    /// Number of hidden layers.
    pub layers: usize,
    pub prior_mean: PriorMean,
    /// Correlation length of hidden layers; their variance is 1.
    pub length: f64,
    /// The fitted length of the stationary model.
    pub start_length: f64,
    /// Bounds of local lengths.
    pub bounds: (f64, f64),
    /// Middle of the rows, `[d]`.
    pub x_centre: Vec<f64>,
    /// Directions of x that hidden layers start from, `[d, width]`; `None`: all features.
    pub projection: Option<Array2<f64>>,
    /// Middle of the inputs of upper layers, `[D]`.
    pub centre: Vec<f64>,
    /// Injective: where u is known.
    pub knots: Option<Knots>,
}

impl Design {
    /// The layers for x: `[n, d]`, around the stationary model `start`.
    pub fn new((x, span): (ArrayView2<'_, f64>, &Span), options: &DeepOptions, start: &Hyper) -> Result<Self, GpError> {
        let d = x.ncols();
        options.check(d)?;
        let start_length = start
            .length()
            .ok_or_else(|| GpError::value("a deep model has one correlation length, not one per feature"))?;
        let layers = options.layers.used();
        let architecture = layers.architecture;
        let composition = architecture == Architecture::Composition;
        let width = if composition { layers.width.map_or(d, |width| width as usize) } else { 1 };
        let projection = if composition && width != d { Some(principal_directions(x, width)?) } else { None };
        if span.is_shared() && (projection.is_some() || architecture == Architecture::Injective) {
            return Err(GpError::shape("hidden layers that need all rows at once, which are with several processes"));
        }
        let u_min = layers.u_min.unwrap_or(match architecture {
            Architecture::Injective => SMALLEST_SLOPE,
            _ => start_length / LENGTH_RANGE,
        });
        let u_max = layers.u_max.unwrap_or(start_length * LENGTH_RANGE);
        if architecture == Architecture::Convolution && u_min >= u_max {
            let note = |given: Option<f64>, factor: &str| {
                if given.is_some() { String::new() } else { format!(" (not given: {factor} the fitted length)") }
            };
            let (low, high) = (note(layers.u_min, "a tenth of"), note(layers.u_max, "ten times"));
            return Err(GpError::value(format!("u_min = {u_min}{low} must be below u_max = {u_max}{high}")));
        }
        let knots = (architecture == Architecture::Injective).then(|| {
            let rows = knots::choose(x.column(0));
            Knots::new(rows.iter().map(|row| x[[*row, 0]]).collect(), u_min)
        });
        let x_centre = means_over(span, x)?;
        let mut design = Self {
            architecture,
            kernel: options.start.kernel(),
            top_kernel: options.start.top_kernel(),
            layers: layers.layers as usize - 1,
            prior_mean: layers.prior_mean,
            length: layers.length.unwrap_or(start_length),
            start_length,
            bounds: (u_min, u_max),
            centre: Vec::new(),
            projection,
            x_centre,
            knots,
        };
        design.centre = match architecture {
            Architecture::Composition if design.starts_at_features() => design.x_centre.clone(),
            Architecture::Composition => column_means(design.start_values(x)?.view()),
            Architecture::Convolution => vec![0.0],
            Architecture::Injective => design.x_centre.clone(),
        };
        Ok(design)
    }

    /// Outputs of a hidden layer.
    pub fn width(&self) -> usize {
        if self.architecture == Architecture::Composition { self.centre.len().max(1) } else { 1 }
    }

    /// The values of every hidden layer at x: `[k, d]` that make the deep model the stationary one, `[k, D]`.
    pub fn start_values(&self, x: ArrayView2<'_, f64>) -> Result<Array2<f64>, GpError> {
        Ok(match (self.architecture, &self.projection) {
            (Architecture::Composition, None) => x.to_owned(),
            (Architecture::Composition, Some(directions)) => {
                let mut values = Array2::zeros((x.nrows(), directions.ncols()));
                gemm_nn(1.0, x.as_standard_layout().view(), directions.view(), 0.0, values.view_mut())?;
                values
            }
            (Architecture::Convolution, _) => Array2::from_elem((x.nrows(), 1), self.start_length),
            (Architecture::Injective, _) => Array2::ones((x.nrows(), 1)),
        })
    }

    /// Whether [`Design::start_values`] are the features themselves.
    pub fn starts_at_features(&self) -> bool {
        self.architecture == Architecture::Composition && self.projection.is_none()
    }

    /// The prior mean of a layer above values: `[k, D]` of the one below, or above the start values.
    pub fn mean(&self, below: ArrayView2<'_, f64>) -> Array2<f64> {
        match (self.prior_mean, self.architecture) {
            (PriorMean::Zero, _) => Array2::zeros(below.dim()),
            (PriorMean::Identity, Architecture::Composition) => below.to_owned(),
            (PriorMean::Identity, Architecture::Convolution) => Array2::from_elem(below.dim(), self.start_length),
            (PriorMean::Identity, Architecture::Injective) => Array2::ones(below.dim()),
        }
    }

    /// Whether the mean of a layer moves with the layer below.
    pub fn mean_follows(&self) -> bool {
        self.prior_mean == PriorMean::Identity && self.architecture == Architecture::Composition
    }

    /// The covariance of the bottom layer at x: `[k, d]`.
    pub fn bottom(&self, x: ArrayView2<'_, f64>) -> Result<Warped, GpError> {
        Warped::stationary(self.kernel, (1.0, self.length), x, &self.x_centre)
    }

    /// The covariance of an upper hidden layer at x: `[k, d]`, given inputs: `[k, D]`.
    pub fn hidden(&self, x: ArrayView2<'_, f64>, inputs: ArrayView2<'_, f64>) -> Result<Warped, GpError> {
        self.warped(self.kernel, x, inputs, (1.0, self.length))
    }

    /// The covariance of the top layer at x: `[k, d]`, given inputs: `[k, D]`.
    pub fn top(&self, x: ArrayView2<'_, f64>, inputs: ArrayView2<'_, f64>, hyper: &Hyper) -> Result<Warped, GpError> {
        self.warped(self.top_kernel, x, inputs, (hyper.variance, hyper.lengths[0]))
    }

    /// The top covariance of the stationary model the fit starts from, at some training rows.
    pub fn top_at_start(
        &self,
        rows: &super::hidden::TrainingRows,
        some: &[usize],
        start: &Hyper,
    ) -> Result<Warped, GpError> {
        let some = rows.pick(some)?;
        let inputs = if self.knots.is_some() { some.x.view() } else { some.start.view() };
        self.top(some.x.view(), inputs, start)
    }

    fn warped(
        &self,
        kernel: Kernel,
        x: ArrayView2<'_, f64>,
        inputs: ArrayView2<'_, f64>,
        (variance, length): (f64, f64),
    ) -> Result<Warped, GpError> {
        if self.architecture == Architecture::Convolution {
            let lengths = inputs.iter().map(|value| self.clamp(*value)).collect();
            return Warped::local(kernel, variance, x, &self.x_centre, lengths);
        }
        Warped::stationary(kernel, (variance, length), inputs, &self.centre)
    }

    /// Where the top layer sees rows with features x: `[k, d]` and inputs: `[k, D]`.
    pub fn places(&self, x: ArrayView2<'_, f64>, inputs: Array2<f64>) -> Places {
        if self.architecture == Architecture::Convolution {
            let lengths = inputs.iter().map(|value| self.clamp(*value)).collect();
            return Places { points: x.to_owned(), lengths: Some(lengths) };
        }
        Places { points: inputs, lengths: None }
    }

    /// Turns a derivative by [`Design::places`] into one by inputs: `[k, D]`.
    pub fn places_back(&self, inputs: ArrayView2<'_, f64>, adjoint: Array2<f64>) -> Array2<f64> {
        self.warped_back(inputs, adjoint, 1.0)
    }

    fn clamp(&self, value: f64) -> f64 {
        // Comparisons, not `clamp`: NaN passes and is noticed later.
        let (least, most) = self.bounds;
        if value < least {
            least
        } else if value > most {
            most
        } else {
            value
        }
    }

    /// Turns a derivative by what [`Warped`] knows of the rows into one by inputs: `[k, D]`; `length` is the layer's.
    pub fn warped_back(&self, inputs: ArrayView2<'_, f64>, mut adjoint: Array2<f64>, length: f64) -> Array2<f64> {
        if self.architecture == Architecture::Convolution {
            let (least, most) = self.bounds;
            adjoint.zip_mut_with(&inputs, |adjoint, value| {
                if !(*value > least && *value < most) {
                    *adjoint = 0.0;
                }
            });
            return adjoint;
        }
        adjoint /= length;
        adjoint
    }

    /// Injective: where the rows x: `[k, 1]` lie between the knots.
    pub fn spots(&self, x: ArrayView2<'_, f64>) -> Option<Vec<Spot>> {
        self.knots.as_ref().map(|knots| knots.spots(x))
    }

    /// Injective: the knots as rows, `[T, 1]`; otherwise none.
    pub fn knot_rows(&self) -> Array2<f64> {
        let at = self.knots.as_ref().map_or(&[][..], |knots| &knots.at);
        ArrayView1::from(at).insert_axis(Axis(1)).to_owned()
    }
}

// The first `width` principal directions of x: [n, d], as [d, width]; zero beyond d.
fn principal_directions(x: ArrayView2<'_, f64>, width: usize) -> Result<Array2<f64>, GpError> {
    let (n, d) = x.dim();
    let mut directions = Array2::zeros((d, width));
    if width > d {
        directions.diag_mut().fill(1.0);
        return Ok(directions);
    }
    let centred = (&x - &ArrayView1::from(&column_means(x))).as_standard_layout().into_owned();
    let mut moments = Array2::zeros((d, d));
    add_gram(centred.view(), moments.view_mut())?;
    moments /= n.max(1) as f64;
    let moments = eigenvectors(moments)?;
    for k in 0..width {
        let mut direction = moments.row(d - 1 - k).to_owned();
        // The sign of an eigenvector is arbitrary: its largest entry is to be positive.
        let largest = direction.iter().copied().fold(0.0_f64, |a, b| if b.abs() > a.abs() { b } else { a });
        if largest < 0.0 {
            direction.mapv_inplace(|v| -v);
        }
        directions.column_mut(k).assign(&direction);
    }
    Ok(directions)
}
