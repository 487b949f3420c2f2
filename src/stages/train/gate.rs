//! Conditions on metrics: `smse < 0.25 and coverage_95 >= 0.9`, under which a model is published, and those of drift.

use crate::eval::metrics::of_predictions;
use crate::text::nearest;
use serde::{Serialize, Serializer};
use std::fmt;

/// Conditions that must all hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    pub conditions: Vec<Condition>,
}

/// A metric and what it is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    pub metric: String,
    pub comparison: Comparison,
    pub bound: ComparedWith,
}

/// What a metric is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ComparedWith {
    Number(f64),
    /// The same metric of the model that is published, on the same rows.
    Published,
}

impl ComparedWith {
    const PUBLISHED: &'static str = "published";
}

/// How a metric is compared with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
}

/// Longer signs first, so that `<=` is not taken for `<`.
const SIGNS: [(&str, Comparison); 4] =
    [("<=", Comparison::AtMost), (">=", Comparison::AtLeast), ("<", Comparison::Less), (">", Comparison::More)];

impl Gate {
    /// The conditions on predictions in a text, or what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let known: Vec<&str> = of_predictions().map(|metric| metric.name).collect();
        Self::read(&known, "smse < 0.25", text)
    }

    /// The conditions on metrics of these names; the example is for messages.
    pub fn parse_among(known: &[&str], example: &str, text: &str) -> Result<Self, String> {
        let gate = Self::read(known, example, text)?;
        if gate.conditions.iter().any(|condition| condition.bound == ComparedWith::Published) {
            return Err(format!("`{}` is for `publish_if`: write a number", ComparedWith::PUBLISHED));
        }
        Ok(gate)
    }

    fn read(known: &[&str], example: &str, text: &str) -> Result<Self, String> {
        let conditions = text.split(" and ").map(|text| Condition::parse(known, example, text));
        Ok(Self { conditions: conditions.collect::<Result<_, _>>()? })
    }
}

impl Condition {
    fn parse(known: &[&str], example: &str, text: &str) -> Result<Self, String> {
        let text = text.trim();
        let sign = SIGNS.iter().find_map(|(sign, comparison)| Some((text.split_once(sign)?, *comparison)));
        let Some(((metric, bound), comparison)) = sign else {
            return Err(format!("`{text}` is not a condition such as `{example}`"));
        };
        let (metric, bound) = (metric.trim(), bound.trim());
        if !known.contains(&metric) {
            let advice = nearest(metric, known)
                .map_or_else(|| format!("known: {}", known.join(", ")), |near| format!("did you mean `{near}`?"));
            return Err(format!("there is no metric `{metric}`; {advice}"));
        }
        let metric_name = metric.to_owned();
        match bound.parse::<f64>() {
            Ok(bound) if bound.is_finite() => {
                Ok(Self { metric: metric_name, comparison, bound: ComparedWith::Number(bound) })
            }
            _ if bound == ComparedWith::PUBLISHED => {
                Ok(Self { metric: metric_name, comparison, bound: ComparedWith::Published })
            }
            _ => Err(format!("`{bound}` is not a number to compare `{metric}` with")),
        }
    }

    /// Whether it holds, where the same metric of the published model is known if it counts; a metric that is not defined
    /// meets nothing.
    pub fn holds(&self, value: Option<f64>, published: Option<f64>) -> bool {
        let bound = match self.bound {
            ComparedWith::Number(bound) => Some(bound),
            ComparedWith::Published => published,
        };
        value.zip(bound).is_some_and(|(value, bound)| match self.comparison {
            Comparison::Less => value < bound,
            Comparison::AtMost => value <= bound,
            Comparison::More => value > bound,
            Comparison::AtLeast => value >= bound,
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = SIGNS.iter().find(|(_, known)| *known == self.comparison).map_or("", |(sign, _)| sign);
        match self.bound {
            ComparedWith::Number(bound) => write!(f, "{} {sign} {bound}", self.metric),
            ComparedWith::Published => write!(f, "{} {sign} {}", self.metric, ComparedWith::PUBLISHED),
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.conditions.iter().map(Condition::to_string).collect();
        f.write_str(&all.join(" and "))
    }
}

impl Serialize for Gate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_hold() {
        let gate = Gate::parse("smse<0.25 and coverage_95 >= 0.9").unwrap_or(Gate { conditions: Vec::new() });
        assert_eq!(gate.to_string(), "smse < 0.25 and coverage_95 >= 0.9");
        assert!(gate.conditions[0].holds(Some(0.2), None) && !gate.conditions[0].holds(Some(0.25), None));
        assert!(gate.conditions[1].holds(Some(0.9), None) && !gate.conditions[1].holds(None, None));
        let gate = Gate::parse("mae <= published").unwrap_or(Gate { conditions: Vec::new() });
        assert_eq!(gate.to_string(), "mae <= published");
        assert!(gate.conditions[0].holds(Some(0.2), Some(0.2)) && !gate.conditions[0].holds(Some(0.2), Some(0.1)));
        assert!(!gate.conditions[0].holds(Some(0.2), None));
        assert!(Gate::parse_among(&["mae"], "mae < 1", "mae < published").is_err());
        for wrong in ["", "smse", "smse < x", "smse < inf", "smze < 1", "smse = 1", "smse < 1 or mae < 2"] {
            assert!(Gate::parse(wrong).is_err(), "{wrong}");
        }
    }
}
