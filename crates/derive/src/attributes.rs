//! Parsing of `#[module(..)]`.

use syn::{Attribute, LitStr, Path, Result};

/// The attributes of a type.
pub struct OfType {
    /// The crate that holds `Module`.
    pub home: Path,
    /// Does a summary show the type's `Display`?
    pub display: bool,
}

impl OfType {
    pub fn parse(attributes: &[Attribute], home: Path) -> Result<Self> {
        let mut out = OfType { home, display: false };
        for a in attributes.iter().filter(|a| a.path().is_ident("module")) {
            a.parse_nested_meta(|m| {
                if m.path.is_ident("display") {
                    out.display = true;
                    Ok(())
                } else if m.path.is_ident("crate") {
                    out.home = m.value()?.call(Path::parse_mod_style)?;
                    Ok(())
                } else {
                    Err(m.error("on a type, module(..) takes `display` and `crate = path`"))
                }
            })?;
        }
        Ok(out)
    }
}

/// The attributes of a field.
#[derive(Default)]
pub struct OfField {
    /// Is it left out?
    pub skip: bool,
    /// The name in place of the field's own.
    pub rename: Option<String>,
}

impl OfField {
    pub fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut out = OfField::default();
        for a in attributes.iter().filter(|a| a.path().is_ident("module")) {
            a.parse_nested_meta(|m| {
                if m.path.is_ident("skip") {
                    out.skip = true;
                    Ok(())
                } else if m.path.is_ident("rename") {
                    let name: LitStr = m.value()?.parse()?;
                    if name.value().is_empty() || name.value().contains('.') {
                        return Err(syn::Error::new(
                            name.span(),
                            "a part's name is not empty and has no dot",
                        ));
                    }
                    out.rename = Some(name.value());
                    Ok(())
                } else {
                    Err(m.error("on a field, module(..) takes `skip` and `rename = \"name\"`"))
                }
            })?;
        }
        Ok(out)
    }
}
