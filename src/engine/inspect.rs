//! Looks at the data of a plan without running it.

use super::plan::{Case, Plan};
use crate::stages::RowCheck;
use crate::stages::ingest::inspect::Inspection;

/// Opens every input of every case; inputs that cases share are opened once.
pub fn inspect(plan: &Plan) -> Vec<Inspection> {
    let mut found: Vec<(String, Inspection)> = Vec::new();
    for case in &plan.cases {
        for stage in &case.stages {
            let mut checks = Vec::new();
            collect(case, &stage.id, &mut checks);
            let parts: Vec<&str> = checks.iter().map(|check| check.identity.as_str()).collect();
            let identity = format!("{} {:?} {:?} {parts:?}", stage.id, stage.stage, stage.demand);
            if let Some((_, seen)) = found.iter_mut().find(|(known, _)| *known == identity) {
                seen.cases.push(case.label.clone());
            } else if let Some(seen) = stage.stage.inspect(&stage.demand, &checks, plan.seed) {
                let (id, cases) = (stage.id.clone(), vec![case.label.clone()]);
                found.push((identity, Inspection { stage: id, cases, ..seen }));
            }
        }
    }
    found.into_iter().map(|(_, seen)| seen).collect()
}

/// The checks of all stages that take these rows, then of those that take them divided.
fn collect(case: &Case, input: &str, checks: &mut Vec<RowCheck>) {
    let takers: Vec<_> = case.stages.iter().filter(|stage| stage.stage.inputs().last() == Some(&input)).collect();
    for taker in &takers {
        checks.extend(taker.stage.row_checks(&case.pairs()));
    }
    for taker in takers.iter().filter(|taker| taker.stage.hands_on_rows()) {
        collect(case, &taker.id, checks);
    }
}
