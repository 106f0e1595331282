//! Which GPUs this machine has, asked without CUDA: of `nvidia-smi`, else of the kernel module.

use std::{fs, process::Command};

/// The GPUs of a machine and their driver.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gpu {
    names: Vec<String>,
    pub(crate) driver: String,
}

impl Gpu {
    /// The name, with how many there are if several.
    pub(crate) fn name(&self) -> String {
        match self.names.as_slice() {
            [] => "unnamed GPU".to_owned(),
            [one] => one.clone(),
            [first, ..] => format!("{} x {first}", self.names.len()),
        }
    }

    /// Stands in where the simulated driver is run.
    pub(crate) fn simulated() -> Self {
        Self { names: vec!["simulated driver".to_owned()], driver: "none".to_owned() }
    }

    #[cfg(test)]
    pub(crate) fn for_test(names: &[&str]) -> Self {
        Self {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            driver: "1.2.3".to_owned(),
        }
    }
}

/// `None` if there is no NVIDIA GPU, or no driver for it.
pub(crate) fn find() -> Option<Gpu> {
    let asked = Command::new("nvidia-smi")
        .args(["--query-gpu=name,driver_version", "--format=csv,noheader"])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| parse(&String::from_utf8_lossy(&output.stdout)));
    asked.or_else(from_kernel_module)
}

/// Lines `NAME, DRIVER VERSION`.
fn parse(text: &str) -> Option<Gpu> {
    let rows: Vec<(&str, &str)> = text.lines().filter_map(|line| line.rsplit_once(", ")).collect();
    let (_, driver) = rows.first()?;
    let names = rows.iter().map(|(name, _)| name.trim().to_owned()).collect();
    Some(Gpu { names, driver: driver.trim().to_owned() })
}

fn from_kernel_module() -> Option<Gpu> {
    let mut names = Vec::new();
    for gpu in fs::read_dir("/proc/driver/nvidia/gpus").ok()? {
        let text = fs::read_to_string(gpu.ok()?.path().join("information")).ok()?;
        names.extend(model(&text));
    }
    names.sort();
    let version = fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    (!names.is_empty())
        .then(|| Gpu { names, driver: driver(&version).unwrap_or("unknown").to_owned() })
}

/// The line `Model:` of a GPU's `information`.
fn model(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("Model:"))?;
    Some(line.trim().to_owned())
}

/// The first word that looks like a version in the first line of `version`.
fn driver(text: &str) -> Option<&str> {
    text.lines()
        .next()?
        .split_whitespace()
        .find(|word| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_driver_come_from_the_rows() {
        let gpu = parse("NVIDIA H200, 580.159.04\nNVIDIA H200, 580.159.04\n").unwrap();
        assert_eq!((gpu.name().as_str(), gpu.driver.as_str()), ("2 x NVIDIA H200", "580.159.04"));
        assert_eq!(parse("No devices were found\n"), None);
    }

    #[test]
    fn the_kernel_modules_texts_are_read() {
        assert_eq!(model("Model: \t\t NVIDIA H200\nIRQ: 1\n").as_deref(), Some("NVIDIA H200"));
        let text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\nGCC 13\n";
        assert_eq!(driver(text), Some("580.159.04"));
    }
}
