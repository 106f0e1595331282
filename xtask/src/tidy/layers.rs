//! Which crate may depend on which: the layers, as data, against `cargo metadata`.

use super::Finding;
use crate::{Result, workspace};
use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::BTreeMap;

/// Every crate with the crates of this workspace that it may depend on, lowest layer first. A crate knows only crates
/// above it in this list. Dev-dependencies are free: tests may look at a crate from any side.
const LAYERS: &[(&str, &[&str])] = &[
    ("cuhold-driver-sys", &[]),
    ("cuhold-driver-sim", &["cuhold-driver-sys"]),
    // The simulated driver is known to `Device::new` alone, behind the feature `sim`.
    ("cuhold-handles", &["cuhold-driver-sys", "cuhold-driver-sim"]),
    ("cuhold-memory", &["cuhold-driver-sys", "cuhold-handles"]),
    ("cuhold-graph", &["cuhold-driver-sys", "cuhold-handles", "cuhold-memory"]),
    (
        "cuhold",
        &[
            "cuhold-driver-sys",
            "cuhold-driver-sim",
            "cuhold-handles",
            "cuhold-memory",
            "cuhold-graph",
        ],
    ),
    ("cuhold-cudarc", &["cuhold-driver-sys", "cuhold-handles", "cuhold-memory"]),
    (
        "cuhold-testkit",
        &[
            "cuhold-driver-sys",
            "cuhold-driver-sim",
            "cuhold-handles",
            "cuhold-memory",
            "cuhold-graph",
            "cuhold",
        ],
    ),
    ("cuhold-facts", &["cuhold-driver-sys", "cuhold-driver-sim"]),
    ("cuhold-libcuda-sim", &["cuhold-driver-sys", "cuhold-driver-sim"]),
    ("xtask", &[]),
    ("cuhold-benches", &["cuhold", "cuhold-driver-sys", "cuhold-driver-sim"]),
];

/// Edges that aren't allowed, and crates that have no place in the list.
pub(super) fn check() -> Result<Vec<Finding>> {
    let metadata = MetadataCommand::new()
        .current_dir(workspace::root())
        .no_deps()
        .exec()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    let mut edges = BTreeMap::new();
    for package in &metadata.packages {
        let known: Vec<String> = package
            .dependencies
            .iter()
            .filter(|d| d.path.is_some() && d.kind != DependencyKind::Development)
            .map(|d| d.name.clone())
            .collect();
        edges.insert(package.name.to_string(), known);
    }
    Ok(compare(&edges, LAYERS))
}

fn compare(edges: &BTreeMap<String, Vec<String>>, layers: &[(&str, &[&str])]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut say = |what: String| found.push(Finding::new("Cargo.toml", 0, what));
    for (from, to) in edges {
        let Some((_, allowed)) = layers.iter().find(|(name, _)| name == from) else {
            say(format!("{from} has no place in the list of layers"));
            continue;
        };
        for to in to.iter().filter(|to| !allowed.contains(&to.as_str())) {
            say(format!("{from} may not depend on {to}"));
        }
    }
    for (name, _) in layers.iter().filter(|(name, _)| !edges.contains_key(*name)) {
        say(format!("{name} is in the list of layers and not in the workspace"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_in_the_list_knows_only_crates_above_it() {
        for (at, (name, allowed)) in LAYERS.iter().enumerate() {
            for known in *allowed {
                let above = LAYERS[..at].iter().any(|(above, _)| above == known);
                assert!(above, "{name} knows {known}, which isn't above it");
            }
        }
    }

    #[test]
    fn edges_crates_and_rows_too_many_are_found() {
        let edges = |pairs: &[(&str, &[&str])]| {
            pairs
                .iter()
                .map(|(name, to)| (name.to_string(), to.iter().map(|to| to.to_string()).collect()))
                .collect::<BTreeMap<_, Vec<_>>>()
        };
        let layers: &[(&str, &[&str])] = &[("low", &[]), ("high", &["low"])];
        assert!(compare(&edges(&[("low", &[]), ("high", &["low"])]), layers).is_empty());
        assert_eq!(compare(&edges(&[("low", &["high"]), ("high", &[])]), layers).len(), 1);
        assert_eq!(compare(&edges(&[("low", &[]), ("high", &[]), ("new", &[])]), layers).len(), 1);
        assert_eq!(compare(&edges(&[("low", &[])]), layers).len(), 1);
    }
}
