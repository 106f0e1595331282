//! What can be chosen about a compilation.

/// The form of compiled code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[non_exhaustive]
pub enum Output {
    /// For the device's own architecture where the compiler knows it, else PTX for the nearest older one.
    #[default]
    ForDevice,
    /// PTX for the device's architecture or the nearest older one that the compiler knows. It needs a driver at least
    /// as new as the compiler.
    Ptx,
}

/// How source text is compiled.
///
/// # Examples
/// ```
/// use cuhold::{CompileOptions, Output};
///
/// let options = CompileOptions::new()
///     .options(&["--use_fast_math"])
///     .name_expressions(&["axpy<float>"])
///     .header("scale.h", "#define SCALE 2.0f")
///     .output(Output::Ptx);
/// # let _: CompileOptions = options;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CompileOptions<'a> {
    pub(super) options: Vec<&'a str>,
    pub(super) expressions: Vec<&'a str>,
    pub(super) headers: Vec<(&'a str, &'a str)>,
    pub(super) name: Option<&'a str>,
    pub(super) output: Output,
}

impl<'a> CompileOptions<'a> {
    /// Nothing chosen.
    ///
    /// Calls nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// NVRTC's own options, such as `--use_fast_math`, after those that are there.
    ///
    /// Calls nothing.
    pub fn options(mut self, options: &[&'a str]) -> Self {
        self.options.extend_from_slice(options);
        self
    }

    /// Expressions, such as `axpy<float>`, whose templates are to be instantiated and whose mangled names
    /// [`Program::lowered_name`](crate::Program::lowered_name) gives.
    ///
    /// Calls nothing.
    pub fn name_expressions(mut self, expressions: &[&'a str]) -> Self {
        self.expressions.extend_from_slice(expressions);
        self
    }

    /// A header that the source can include under this name.
    ///
    /// Calls nothing.
    pub fn header(mut self, name: &'a str, text: &'a str) -> Self {
        self.headers.push((name, text));
        self
    }

    /// What messages call the source.
    ///
    /// Calls nothing.
    pub fn name(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// The form of the code.
    ///
    /// Calls nothing.
    pub fn output(mut self, output: Output) -> Self {
        self.output = output;
        self
    }
}
