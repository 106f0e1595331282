//! The library as programs get it: under the driver's name, found through the dynamic linker, in processes of their own.

#![cfg(target_os = "linux")]

#[cfg(test)]
mod loaded;
#[cfg(test)]
mod place;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod process;
#[cfg(test)]
mod symbols;
