//! Expands a type's definition to its implementation of `Module`.

use crate::attributes::{OfField, OfType};
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use std::collections::BTreeSet;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Data, DeriveInput, Error, Fields, GenericParam, Generics, Ident, Path, Result, Type, TypeParamBound,
    Variant, WherePredicate, parse_quote,
};

/// The implementation.
pub fn expand(input: &DeriveInput, home: Path) -> Result<TokenStream> {
    let OfType { home, display } = OfType::parse(&input.attrs, home)?;
    let ident = &input.ident;
    let mut types = vec![];
    let inside = match &input.data {
        Data::Struct(s) => {
            let parts = Parts::of(&s.fields, false)?;
            types.extend(parts.types());
            let pattern = parts.pattern(&quote!(Self), &s.fields);
            let visits = parts.place(&home, ident, display);
            quote!(let #pattern = self; #visits)
        }
        Data::Enum(e) => {
            let mut arms = vec![];
            for v in &e.variants {
                let parts = Parts::of(&v.fields, is_transparent(v))?;
                types.extend(parts.types());
                let name = &v.ident;
                let pattern = parts.pattern(&quote!(Self::#name), &v.fields);
                let visits =
                    if is_transparent(v) { parts.visits(&home) } else { parts.place(&home, name, display) };
                arms.push(quote!(#pattern => { #visits }));
            }
            if arms.is_empty() {
                return Err(Error::new(ident.span(), "an enum without variants holds nothing to visit"));
            }
            quote!(match self { #(#arms)* })
        }
        Data::Union(u) => {
            return Err(Error::new(
                u.union_token.span,
                "a union cannot be a Module: which field would it hold?",
            ));
        }
    };
    let mut generics = input.generics.clone();
    let backend = backend(&mut generics, &home, &types);
    let (params, _, bounds) = generics.split_for_impl();
    let (_, own, _) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables)]
        impl #params #home::Module<#backend> for #ident #own #bounds {
            fn visit<'a>(&'a self, name: &str, visit: &mut #home::Visit<'a, '_, #backend>) {
                #inside
            }
        }
    })
}

/// The type parameter that is the backend: the one bounded by `Backend`. Without one, the type is a
/// module of every backend that its fields support: `struct Net { fc: Linear<Any> }` of `Any`
/// alone.
fn backend(generics: &mut Generics, home: &Path, types: &[Type]) -> Ident {
    if let Some(found) = bounded_by_backend(generics) {
        return found;
    }
    let fresh = format_ident!("__B");
    generics.params.push(GenericParam::Type(parse_quote!(#fresh: #home::Backend)));
    let bounds = &mut generics.make_where_clause().predicates;
    for t in types {
        bounds.push(parse_quote!(#t: #home::Module<#fresh>));
    }
    fresh
}

fn bounded_by_backend(generics: &Generics) -> Option<Ident> {
    let is_backend = |b: &TypeParamBound| match b {
        TypeParamBound::Trait(t) => t.path.segments.last().is_some_and(|s| s.ident == "Backend"),
        _ => false,
    };
    let direct = generics.type_params().find(|p| p.bounds.iter().any(is_backend)).map(|p| p.ident.clone());
    direct.or_else(|| {
        generics.where_clause.iter().flat_map(|w| &w.predicates).find_map(|p| match p {
            WherePredicate::Type(t) if t.bounds.iter().any(is_backend) => match &t.bounded_ty {
                Type::Path(path) => path.path.get_ident().cloned(),
                _ => None,
            },
            _ => None,
        })
    })
}

fn is_transparent(v: &Variant) -> bool {
    matches!(&v.fields, Fields::Unnamed(f) if f.unnamed.len() == 1)
}

/// The fields that are visited.
struct Parts {
    fields: Vec<Part>,
}

struct Part {
    /// The field in a pattern: its name or number.
    member: TokenStream,
    /// The variable that it is bound to.
    bound: Ident,
    /// The name under which it is visited; `None` for the name of its owner.
    name: Option<String>,
    ty: Type,
}

impl Parts {
    fn of(fields: &Fields, transparent: bool) -> Result<Self> {
        let mut names = BTreeSet::new();
        let mut out = vec![];
        for (i, f) in fields.iter().enumerate() {
            let OfField { skip, rename } = OfField::parse(&f.attrs)?;
            if skip {
                if rename.is_some() {
                    return Err(Error::new(f.span(), "a field that is skipped has no name to change"));
                }
                continue;
            }
            let own = f.ident.as_ref().map_or_else(|| i.to_string(), |n| n.unraw().to_string());
            let member = match &f.ident {
                Some(name) => name.to_token_stream(),
                None => syn::Index::from(i).to_token_stream(),
            };
            let name = match (transparent, rename) {
                (true, None) => None,
                (true, Some(_)) => {
                    return Err(Error::new(
                        f.span(),
                        "the only field of a variant goes by the name of the enum",
                    ));
                }
                (false, rename) => Some(rename.unwrap_or(own)),
            };
            if let Some(name) = &name
                && !names.insert(name.clone())
            {
                return Err(Error::new(f.span(), format!("two parts are called \"{name}\"")));
            }
            out.push(Part { member, bound: format_ident!("part{i}"), name, ty: f.ty.clone() });
        }
        Ok(Parts { fields: out })
    }
    fn types(&self) -> impl Iterator<Item = Type> + '_ {
        self.fields.iter().map(|p| p.ty.clone())
    }
    /// `Self { fc1: part0, fc2: part1, .. }`, which a tuple struct accepts too with numbers for
    /// names.
    fn pattern(&self, path: &TokenStream, fields: &Fields) -> TokenStream {
        if matches!(fields, Fields::Unit) {
            return path.clone();
        }
        let each = self.fields.iter().map(|Part { member, bound, .. }| quote!(#member: #bound));
        quote!(#path { #(#each,)* .. })
    }
    /// The visits wrapped in a node of their own, shown as the type's `Display` or under this name.
    fn place(&self, home: &Path, shown: &Ident, display: bool) -> TokenStream {
        let visits = self.visits(home);
        let shown = shown.unraw().to_string();
        let shown = if display { quote!(self) } else { quote!(&#shown) };
        quote!(visit.module(name, #shown, |visit| { #visits });)
    }
    fn visits(&self, home: &Path) -> TokenStream {
        let each = self.fields.iter().map(|Part { bound, name, .. }| {
            let name = match name {
                Some(name) => quote!(#name),
                None => quote!(name),
            };
            quote!(#home::Module::visit(#bound, #name, visit);)
        });
        quote!(#(#each)*)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is rejected, and the messages: no field may be skipped or visited twice silently.
    #[test]
    fn a_mistake_is_a_sentence() {
        let rows: Vec<(DeriveInput, &str)> = vec![
            (
                parse_quote!(
                    struct S {
                        #[module(skp)]
                        a: A,
                    }
                ),
                "on a field, module(..) takes",
            ),
            (
                parse_quote!(
                    #[module(skip)]
                    struct S {
                        a: A,
                    }
                ),
                "on a type, module(..) takes",
            ),
            (
                parse_quote!(
                    struct S {
                        #[module(rename = "a.b")]
                        a: A,
                    }
                ),
                "a part's name is not empty and has no dot",
            ),
            (
                parse_quote!(
                    struct S {
                        #[module(rename = "")]
                        a: A,
                    }
                ),
                "a part's name is not empty and has no dot",
            ),
            (
                parse_quote!(
                    struct S {
                        #[module(skip, rename = "b")]
                        a: A,
                    }
                ),
                "a field that is skipped has no name",
            ),
            (
                parse_quote!(
                    struct S {
                        a: A,
                        #[module(rename = "a")]
                        b: A,
                    }
                ),
                "two parts are called \"a\"",
            ),
            (
                parse_quote!(
                    enum E {
                        One(#[module(rename = "b")] A),
                    }
                ),
                "the only field of a variant goes by the name",
            ),
            (
                parse_quote!(
                    enum E {}
                ),
                "an enum without variants",
            ),
            (parse_quote!(union U { a: A }), "a union cannot be a Module"),
        ];
        for (input, sentence) in rows {
            let e = expand(&input, parse_quote!(::elinvar_nn)).expect_err(sentence);
            assert!(e.to_string().starts_with(sentence), "{e}, not {sentence}");
        }
    }

    #[test]
    fn the_backend_is_the_parameter_that_is_bounded_by_it() {
        let rows: Vec<(DeriveInput, &str)> = vec![
            (
                parse_quote!(
                    struct S<T, X: Backend>(T, Linear<X>);
                ),
                ":: Module < X >",
            ),
            (
                parse_quote!(
                    struct S<T, X: nn::Backend>(T, X);
                ),
                ":: Module < X >",
            ),
            (
                parse_quote!(
                    struct S<T, X>(T, X)
                    where
                        X: Clone + Backend;
                ),
                ":: Module < X >",
            ),
            (
                parse_quote!(
                    struct S(Linear<Cpu>);
                ),
                "where Linear < Cpu > : :: elinvar_nn :: Module < __B >",
            ),
            (
                parse_quote!(
                    #[module(crate = my::nn)]
                    struct S;
                ),
                "impl < __B : my :: nn :: Backend > my :: nn :: Module",
            ),
        ];
        for (input, want) in rows {
            let got = expand(&input, parse_quote!(::elinvar_nn)).unwrap().to_string();
            assert!(got.contains(want), "{got}\nhas no {want}");
        }
    }
}
