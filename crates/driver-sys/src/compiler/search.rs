//! Where the libraries of the compilers are looked for: what a variable names, by name, in the known folders.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::load::{Attempt, LoadError, Reason, Sought};

/// A library that lies in an installation of CUDA, or in a Python wheel.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) sought: Sought,
    /// Its file names, the newest first.
    pub(crate) names: &'static [&'static str],
    /// Where it lies below the folder of an installation.
    pub(crate) layouts: &'static [&'static str],
}

impl Library {
    /// The first that `open` accepts: of what the variable names, or else by name, then in the known folders.
    pub(crate) fn find<T>(
        &'static self,
        open: impl FnMut(&Path) -> Result<T, Attempt>,
    ) -> Result<T, LoadError> {
        if let Some(named) = self.sought.named() {
            let advice = format!("{} is set, so nothing else was tried", self.sought.variable);
            return self.sought.first(self.files_of(Path::new(&named)), advice, open);
        }
        let known = known_folders().into_iter().flat_map(|folder| self.files_of(&folder));
        let candidates = self.names.iter().map(PathBuf::from).chain(known);
        self.sought.first(candidates, self.sought.advice.to_owned(), open)
    }

    /// The one that this path names, or that lies in this folder.
    pub(crate) fn at<T>(
        &'static self,
        path: &Path,
        open: impl FnMut(&Path) -> Result<T, Attempt>,
    ) -> Result<T, LoadError> {
        self.sought.first(self.files_of(path), "Nothing else was tried".to_owned(), open)
    }

    /// The library's files that are there in a folder, the newest first; what isn't such a folder, as it is.
    fn files_of(&self, path: &Path) -> Vec<PathBuf> {
        let at = |name| self.layouts.iter().map(move |layout| path.join(layout).join(name));
        let mut files: Vec<PathBuf> =
            self.names.iter().flat_map(at).filter(|file| file.is_file()).collect();
        if files.is_empty() {
            files.push(path.to_owned());
        }
        files
    }
}

/// Refuses a folder that doesn't hold the library.
pub(crate) fn not_a_folder(asked: &Path) -> Result<(), Attempt> {
    if asked.is_dir() { Err(Attempt::new(asked, Reason::NotInFolder)) } else { Ok(()) }
}

/// The folders where an installation may be, those that exist.
fn known_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for variable in ["CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX", "VIRTUAL_ENV"] {
        if let Some(root) = env::var_os(variable).filter(|value| !value.is_empty()) {
            folders.push(PathBuf::from(&root));
            folders.extend(python_packages(Path::new(&root)));
        }
    }
    folders.push("/usr/local/cuda".into());
    let home = env::home_dir().map(|home| home.join(".local"));
    for root in home.into_iter().chain(["/usr/local".into(), "/usr".into()]) {
        folders.extend(python_packages(&root));
    }
    folders.retain(|folder| folder.is_dir());
    folders
}

/// The folders of Python packages below `root` that hold some of NVIDIA's.
fn python_packages(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = root.join("lib").read_dir() else { return Vec::new() };
    let is_python = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"))
    };
    let mut versions: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(is_python).collect();
    versions.sort();
    let packages = |version: PathBuf| ["site-packages", "dist-packages"].map(|p| version.join(p));
    versions.into_iter().flat_map(packages).filter(|p| p.join("nvidia").is_dir()).collect()
}
