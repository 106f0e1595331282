//! Code: modules and libraries from images, their functions and kernels, launches.
//!
//! ```text
//!   load.rs ─► image.rs  ◄─ ptx, elf, fatbin        what an image holds
//!   module.rs, library.rs, function.rs, occupancy.rs, launch.rs    the driver's functions
//!   link.rs        images put together            node.rs  kernels as nodes of graphs
//!   setting.rs     a function's attributes            kernel_launch.rs     a kernel as a host closure sees it
//! ```
//!
//! A library has no context; in each context where something of it is needed, a module of it is loaded. A function
//! belongs to a module, so to a context; a kernel belongs to a library.

mod elf;
mod fatbin;
mod function;
mod image;
mod jit;
mod kernel_launch;
mod launch;
mod library;
mod link;
mod load;
mod module;
mod node;
mod occupancy;
mod params;
mod ptx;
mod setting;

use std::{collections::BTreeMap, ffi::CString, sync::Arc};

use cuhold_driver_sys::CUresult;

pub use self::kernel_launch::{Dim3, KernelFault, KernelLaunch, SliceMut, Thread};
pub(crate) use self::{
    function::{
        function_attribute, function_is_loaded, function_load, function_module, function_name,
        function_param_count, function_param_info, function_set_attribute,
        function_set_cache_config,
    },
    launch::{launch, launch_cooperative, launch_ex},
    library::{
        kernel_attribute, kernel_function, kernel_library, kernel_name, kernel_param_count,
        kernel_param_info, kernel_set_attribute, kernel_set_cache_config, library_global,
        library_kernel, library_kernel_count, library_kernels, library_load, library_load_file,
        library_module, library_unload,
    },
    link::{link_add_data, link_add_file, link_complete, link_create, link_destroy},
    module::{
        module_function, module_function_count, module_functions, module_global, module_load,
        module_load_ex, module_load_fat, module_load_file, module_loading_mode, module_unload,
    },
    occupancy::{
        available_dynamic_shared, max_active_blocks, max_active_blocks_with_flags,
        max_potential_block_size, max_potential_block_size_with_flags,
    },
};
use self::{
    image::{Image, KernelInfo, Target, Variable},
    link::LinkState,
    setting::Settings,
};
pub(crate) use self::{kernel_launch::KernelCode, node::NodeKernel};
use crate::{
    audit::{CallSite, Leak, ObjectKind},
    context::Context,
    memory::Origin,
    world::{Ending, Key, State, Table, Turn, Values},
};

/// A module: an image in a context.
#[derive(Debug)]
pub(crate) struct Module {
    context: Key<Context>,
    image: Arc<Image>,
    /// The library that it was loaded for, which then ends it.
    library: Option<Key<Library>>,
    /// The functions that were asked for, by the kernel's place in the image.
    functions: BTreeMap<usize, Key<Function>>,
    /// The addresses of the variables, in the image's order.
    variables: Vec<u64>,
}

/// A function: a kernel of a module.
#[derive(Debug)]
pub(crate) struct Function {
    module: Key<Module>,
    context: Key<Context>,
    code: Named,
    settings: Settings,
    /// The kernel of a library that it is, whose settings count where it has none of its own.
    kernel: Option<Key<Kernel>>,
    is_loaded: bool,
}

/// A library.
#[derive(Debug)]
pub(crate) struct Library {
    /// The image, or what asking for anything in it answers: a library is loaded without a look at it (measured).
    image: Result<Arc<Image>, CUresult>,
    kernels: Vec<Key<Kernel>>,
    /// The contexts in which it is loaded, with its module there.
    modules: Vec<(Key<Context>, Key<Module>)>,
}

/// A kernel of a library.
#[derive(Debug)]
pub(crate) struct Kernel {
    library: Key<Library>,
    code: Named,
    /// By the index of the device.
    settings: BTreeMap<usize, Settings>,
}

/// A kernel of an image, with its name as C wants it.
#[derive(Clone, Debug)]
struct Named {
    image: Arc<Image>,
    index: usize,
    name: Arc<CString>,
}

impl Named {
    fn new(image: &Arc<Image>, index: usize) -> Option<Self> {
        let name = CString::new(image.kernels.get(index)?.name.as_str()).ok()?;
        Some(Self { image: Arc::clone(image), index, name: Arc::new(name) })
    }

    fn info(&self) -> Result<&KernelInfo, CUresult> {
        self.image.kernels.get(self.index).ok_or(CUresult::INVALID_HANDLE)
    }
}

/// The state of all code.
#[derive(Debug)]
pub(crate) struct Code {
    modules: Table<Module>,
    functions: Table<Function>,
    libraries: Table<Library>,
    kernels: Table<Kernel>,
    links: Table<LinkState>,
    /// What kernels do, by name.
    closures: BTreeMap<String, KernelCode>,
}

impl Code {
    pub(crate) fn new(values: Values) -> Self {
        Self {
            modules: Table::new(ObjectKind::Module, values),
            functions: Table::new(ObjectKind::Function, values),
            libraries: Table::new(ObjectKind::Library, values),
            kernels: Table::new(ObjectKind::Kernel, values),
            links: Table::new(ObjectKind::LinkState, values),
            closures: BTreeMap::new(),
        }
    }

    /// What is loaded and wasn't unloaded. A library's modules aren't the caller's to unload.
    pub(crate) fn leaks(&self) -> impl Iterator<Item = Leak> {
        let own = |leak: &Leak| {
            let key = usize::try_from(leak.raw).ok().and_then(|raw| self.modules.find(raw));
            key.and_then(|key| self.modules.get(key)).is_some_and(|m| m.library.is_none())
        };
        let modules = self.modules.leaks().filter(own);
        modules.chain(self.libraries.leaks()).chain(self.links.leaks())
    }

    /// Modules that nobody unloaded before their context ended and took them along.
    pub(crate) fn gone_with_context(&self) -> impl Iterator<Item = Leak> {
        self.modules.gone_with_context().chain(self.links.gone_with_context())
    }

    /// Says what a kernel does, and returns what it did before.
    pub(crate) fn register(&mut self, name: String, code: KernelCode) -> Option<KernelCode> {
        self.closures.insert(name, code)
    }
}

impl State {
    /// Ends what belongs to a context that ends.
    pub(crate) fn end_context_in_code(&mut self, context: Key<Context>, by: CallSite) {
        let gone = Ending::GoneWithContext(context.raw());
        for key in self.code.modules.keys(|module| module.context == context) {
            // A library's module was never the caller's to unload.
            let of_library = self.code.modules.get(key).is_some_and(|m| m.library.is_some());
            self.end_module(key, by, if of_library { Ending::Destroyed } else { gone });
        }
        for key in self.code.links.keys(|link| link.context() == context) {
            self.code.links.remove(key, by, gone);
        }
        for library in self.code.libraries.keys(|_| true) {
            if let Some(library) = self.code.libraries.get_mut(library) {
                library.modules.retain(|(of, _)| *of != context);
            }
        }
    }

    /// Ends a module with its functions and variables.
    fn end_module(&mut self, key: Key<Module>, by: CallSite, ending: Ending) {
        let Some(module) = self.code.modules.remove(key, by, ending) else { return };
        for function in module.functions.into_values() {
            self.code.functions.remove(function, by, ending);
        }
        let is_its = |origin| matches!(origin, Origin::Module(_, of) if of == key);
        self.memory.remove_all(is_its, by);
    }
}

impl Turn<'_> {
    /// The device and driver that code is loaded for.
    fn code_target(&self, device: usize) -> Result<Target, CUresult> {
        let device = self.state.devices.get(device).ok_or(CUresult::INVALID_DEVICE)?;
        let (major, minor) = device.options.compute_capability;
        Ok(Target {
            architecture: u32::try_from(major * 10 + minor).unwrap_or(0),
            driver_version: self.state.options.driver_version.0,
        })
    }

    /// The index of a context's device.
    fn device_of_context(&mut self, context: Key<Context>) -> Result<usize, CUresult> {
        let device = self.context_data(context)?.device;
        self.state.device_index(device)
    }

    /// Loads an image into a context: its variables get memory.
    fn load_module(
        &mut self,
        context: Key<Context>,
        image: Arc<Image>,
        library: Option<Key<Library>>,
    ) -> Result<Key<Module>, CUresult> {
        let device = self.device_of_context(context)?;
        let made = self.site;
        let module = Module {
            context,
            image: Arc::clone(&image),
            library,
            functions: BTreeMap::new(),
            variables: Vec::new(),
        };
        let key = self.state.code.modules.insert(made, module);
        for variable in &image.variables {
            let placed =
                place(&mut self.state, variable, Origin::Module(context, key), device, made);
            match (placed, self.state.code.modules.get_mut(key)) {
                (Ok(address), Some(module)) => module.variables.push(address),
                (Err(status), _) => {
                    self.state.end_module(key, made, Ending::Destroyed);
                    return Err(status);
                }
                (Ok(_), None) => return Err(self.broken("module")),
            }
        }
        Ok(key)
    }

    /// The function of a module for the kernel at a place in its image.
    fn module_kernel(
        &mut self,
        key: Key<Module>,
        index: usize,
        kernel: Option<Key<Kernel>>,
    ) -> Result<Key<Function>, CUresult> {
        let module = self.state.code.modules.get(key).ok_or(CUresult::INVALID_HANDLE)?;
        if let Some(known) = module.functions.get(&index) {
            return Ok(*known);
        }
        let code = Named::new(&module.image, index).ok_or(CUresult::NOT_FOUND)?;
        let context = module.context;
        let settings = Settings::default();
        let is_loaded = false;
        let function = Function { module: key, context, code, settings, kernel, is_loaded };
        let made = self.site;
        let function = self.state.code.functions.insert(made, function);
        if let Some(module) = self.state.code.modules.get_mut(key) {
            module.functions.insert(index, function);
        }
        Ok(function)
    }

    /// A library's module in a context, loaded if it isn't there yet.
    fn library_module_in(
        &mut self,
        library: Key<Library>,
        context: Key<Context>,
    ) -> Result<Key<Module>, CUresult> {
        let data = self.state.code.libraries.get(library).ok_or(CUresult::INVALID_HANDLE)?;
        if let Some((_, module)) = data.modules.iter().find(|(of, _)| *of == context) {
            return Ok(*module);
        }
        let image = data.image.clone()?;
        let module = self.load_module(context, image, Some(library))?;
        if let Some(data) = self.state.code.libraries.get_mut(library) {
            data.modules.push((context, module));
        }
        Ok(module)
    }

    /// A kernel's function in a context, loaded.
    fn kernel_in(
        &mut self,
        kernel: Key<Kernel>,
        context: Key<Context>,
    ) -> Result<Key<Function>, CUresult> {
        let data = self.state.code.kernels.get(kernel).ok_or(CUresult::INVALID_HANDLE)?;
        let (library, index) = (data.library, data.code.index);
        let module = self.library_module_in(library, context)?;
        let function = self.module_kernel(module, index, Some(kernel))?;
        self.function_data_mut(function)?.is_loaded = true;
        Ok(function)
    }

    fn function_data(&self, key: Key<Function>) -> Result<&Function, CUresult> {
        self.state.code.functions.get(key).ok_or(CUresult::INVALID_HANDLE)
    }

    fn function_data_mut(&mut self, key: Key<Function>) -> Result<&mut Function, CUresult> {
        self.state.code.functions.get_mut(key).ok_or(CUresult::INVALID_HANDLE)
    }
}

/// Gives a variable memory and what it starts with.
fn place(
    state: &mut State,
    variable: &Variable,
    origin: Origin,
    device: usize,
    made: CallSite,
) -> Result<u64, CUresult> {
    let size = variable.size_bytes;
    let address = state.memory.add_uncounted(size, origin, (device, variable.is_managed), made)?;
    if let Some(initial) = &variable.initial {
        let size = usize::try_from(size).map_err(|_too_large| CUresult::OUT_OF_MEMORY)?;
        let mut bytes = initial.clone();
        bytes.resize(size, 0);
        state.memory.write(address, &bytes).map_err(|_misplaced| CUresult::UNKNOWN)?;
    }
    Ok(address)
}

/// A little-endian number of at most 8 bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let mut value = [0; 8];
    value.get_mut(..size)?.copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
    Some(u64::from_le_bytes(value))
}
