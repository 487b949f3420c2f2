//! What is tried: the options that matter most for a method, each with a few values, the cheap ones first.

use crate::stages::train::Method;

/// An option and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Dimension {
    /// What it is called: the option's path below `train`.
    pub name: &'static str,
    pub values: Vec<TriedValue>,
}

/// A value, and what is written for it.
#[derive(Debug, Clone, PartialEq)]
pub struct TriedValue {
    pub label: String,
    /// Options of the train stage, as YAML.
    pub options: String,
}

/// What the values depend on.
#[derive(Debug, Clone, Copy)]
pub struct SearchScope {
    pub method: Method,
    /// Rows that train in the final pipeline, about.
    pub rows: f64,
    /// Whether hidden layers have a rank: then there is a choice of top layers, too.
    pub has_rank: bool,
}

/// From so many rows on, neighbours in training pay: among fewer, hidden layers learn them by heart.
const MANY: f64 = 5_000.0;
/// A point needs some rows to stand for.
const ROWS_PER_POINT: f64 = 3.0;

/// The options of a method; those in `kept` stay as they are written.
pub fn dimensions(scope: SearchScope, kept: &[String]) -> Vec<Dimension> {
    let mut all = Vec::new();
    let sizes = |sizes: &[u32]| -> Vec<u32> {
        sizes.iter().copied().filter(|size| ROWS_PER_POINT * f64::from(*size) <= scope.rows).collect()
    };
    let points = || option("inducing.count", &sizes(&[50, 100, 200, 400]), |m| format!("inducing: {{ count: {m} }}"));
    let kernels = || option("kernel", &["rbf", "matern52", "matern32"], |kernel| format!("kernel: {kernel}"));
    let nearby = || option("local.neighbours", &[20, 40, 80], |count| format!("local: {{ neighbours: {count} }}"));
    let ard = || option("ard", &[false, true], |ard| format!("ard: {ard}"));
    match scope.method {
        Method::Mean | Method::Ridge => {}
        Method::Knn => all.push(option("knn.neighbours", &[5, 10, 20, 40], |k| format!("knn: {{ neighbours: {k} }}"))),
        Method::Gp => {
            all.extend([kernels(), ard()]);
        }
        Method::SparseGp => {
            all.extend([kernels(), points(), nearby(), ard()]);
        }
        Method::DeepGp => all.extend([kernels(), ard(), layers(), chains(), draws()]),
        Method::Stride => {
            all.extend([kernels(), ard(), points(), nearby(), layers(), chains(), draws(), iterations()]);
            if scope.has_rank {
                let ranks = sizes(&[25, 50, 100, 200, 400]);
                all.push(option("deep.hidden.rank", &ranks, |rank| format!("deep: {{ hidden: {{ rank: {rank} }} }}")));
                all.extend((scope.rows >= MANY).then(top));
            }
        }
    }
    all.retain(|dimension| dimension.values.len() > 1 && !kept.iter().any(|kept| kept == dimension.name));
    all
}

fn option<T: ToString>(name: &'static str, values: &[T], options: impl Fn(&T) -> String) -> Dimension {
    let value = |value: &T| TriedValue { label: value.to_string(), options: options(value) };
    Dimension { name, values: values.iter().map(value).collect() }
}

fn layers() -> Dimension {
    option("deep.layers", &[2, 3], |layers| format!("deep: {{ layers: {layers} }}"))
}

fn chains() -> Dimension {
    option("em.particles", &[2, 4, 8], |chains| format!("em: {{ particles: {chains} }}"))
}

fn draws() -> Dimension {
    option("em.draws", &[1, 4], |draws| format!("em: {{ draws: {draws} }}"))
}

fn iterations() -> Dimension {
    option("em.iterations", &[3, 6, 10], |iterations| format!("em: {{ iterations: {iterations} }}"))
}

/// Neighbours in training come with a climb, short E steps and a short frozen chain, as in `pipelines/fashion-best.yaml`.
fn top() -> Dimension {
    let neighbours = |count: u32| TriedValue {
        label: format!("neighbours {count}"),
        options: format!(
            "top: {{ neighbours: {count} }}\n\
             em: {{ climb: 20, sampler: {{ hmc: {{ transitions: 6 }} }}, final_transitions: 8 }}"
        ),
    };
    let inducing = TriedValue { label: "inducing".to_owned(), options: "top: null".to_owned() };
    Dimension { name: "top", values: vec![inducing, neighbours(16), neighbours(24)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRIDE: SearchScope = SearchScope { method: Method::Stride, rows: 800.0, has_rank: true };

    fn names(scope: SearchScope, kept: &[String]) -> Vec<&'static str> {
        dimensions(scope, kept).iter().map(|dimension| dimension.name).collect()
    }

    #[test]
    fn few_rows_have_small_sizes_and_what_is_kept_is_left_out() {
        let all = dimensions(STRIDE, &[]);
        let points = all.iter().find(|dimension| dimension.name == "inducing.count").map(|dimension| &dimension.values);
        assert_eq!(points.map(Vec::len), Some(3), "{points:?}");
        assert!(!names(STRIDE, &[]).contains(&"top"));
        assert!(names(SearchScope { rows: 50_000.0, ..STRIDE }, &[]).contains(&"top"));
        assert!(!names(STRIDE, &["kernel".to_owned()]).contains(&"kernel"));
        assert!(names(SearchScope { method: Method::Ridge, ..STRIDE }, &[]).is_empty());
        assert!(
            !names(SearchScope { rows: 100.0, ..STRIDE }, &[]).contains(&"inducing.count"),
            "one size is no choice"
        );
    }
}
