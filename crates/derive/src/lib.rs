//! `#[derive(Module)]`: a network's parts from its fields.
//!
//! A part's name is its field's name, so `fc1: Linear<B>` gives `fc1.weight`, as in PyTorch. The
//! generated code visits every field; what a field is (a parameter, a layer, a plain number) is
//! decided by its type's implementation of `Module`, so a field of a type without one is a compile
//! error and never left out silently.
//!
//! On a type: `#[module(display)]` makes the type's `Display` its line in a summary (otherwise the
//! type's name); `#[module(crate = path)]` names the crate that holds `Module` if it is renamed. On
//! a field: `#[module(skip)]` leaves it out, `#[module(rename = "name")]` renames it.
//!
//! The fields of a tuple struct are called `0`, `1`, ...; an enum is whatever its variant holds,
//! and a variant with a single unnamed field is that field.

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, Path, parse_macro_input, parse_quote};

/// Implements `Module` for a struct or an enum by visiting its fields.
#[proc_macro_derive(Module, attributes(module))]
pub fn module(input: TokenStream) -> TokenStream {
    run(parse_macro_input!(input as DeriveInput), parse_quote!(::elinvar_nn))
}

/// The same for users of the crate `elinvar`, which re-exports this as `Module`.
#[proc_macro_derive(FaceModule, attributes(module))]
pub fn face_module(input: TokenStream) -> TokenStream {
    run(parse_macro_input!(input as DeriveInput), parse_quote!(::elinvar::nn))
}

fn run(input: DeriveInput, home: Path) -> TokenStream {
    expand::expand(&input, home).unwrap_or_else(|e| e.to_compile_error()).into()
}
