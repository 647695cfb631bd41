//! Calling an op by its name, with operands by role and attributes by name: for model files,
//! scripts, tests.

use crate::value::Value;
use elinvar_core::{DType, Error, Result, Scalar};
use std::collections::BTreeMap;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    /// Explicit null.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Str(String),
    /// Several values.
    List(Vec<Attr>),
}

/// Operands and attributes of a call.
#[derive(Clone, Debug)]
pub struct Args<V> {
    /// The op's name, for error messages.
    pub op: String,
    /// Operands by role, in order.
    pub inputs: Vec<(String, V)>,
    /// Attributes by name.
    pub attrs: BTreeMap<String, Attr>,
}

impl<V: Value> Args<V> {
    /// The operand in this role.
    ///
    /// # Errors
    /// `InvalidArgument` if it is missing.
    pub fn input(&self, role: &str) -> Result<&V> {
        self.optional(role).ok_or_else(|| Error::argument(format!("{}: operand {role} is missing", self.op)))
    }
    /// The operand x, in the dtype that the attribute dtype names, if there is one.
    ///
    /// # Errors
    /// `InvalidArgument` if x is missing or there is no such dtype; `OutOfMemory`.
    pub fn converted(&self) -> Result<V> {
        let x = self.input("x")?;
        let Some(name) = self.maybe("dtype", Args::str)? else { return Ok(x.clone()) };
        let dtype = DType::parse(name).ok_or_else(|| {
            Error::argument(format!("{}: there is no dtype {name:?}; try f32, bf16 or i64", self.op))
        })?;
        crate::value::cast(x, dtype)
    }
    /// The operand in this role, if there is one.
    pub fn optional(&self, role: &str) -> Option<&V> {
        self.inputs.iter().find(|(r, _)| r == role).map(|(_, v)| v)
    }
    /// The operands `role0`, `role1`, ...
    pub fn all(&self, role: &str) -> Vec<&V> {
        (0..).map_while(|i| self.optional(&format!("{role}{i}"))).collect()
    }
    /// Is this attribute there and not null?
    pub fn has(&self, name: &str) -> bool {
        !matches!(self.attrs.get(name), None | Some(Attr::Null))
    }
    fn attr(&self, name: &str) -> Result<&Attr> {
        self.attrs
            .get(name)
            .ok_or_else(|| Error::argument(format!("{}: attribute {name} is missing", self.op)))
    }
    fn wrong<T>(&self, name: &str, what: &str, seen: &Attr) -> Result<T> {
        Err(Error::argument(format!("{}: attribute {name} is {seen:?}, and should be {what}", self.op)))
    }
    /// A number; the words `inf` and `-inf` are numbers too.
    ///
    /// # Errors
    /// `InvalidArgument` if it is missing or something else.
    pub fn scalar(&self, name: &str) -> Result<Scalar> {
        match self.attr(name)? {
            Attr::Int(v) => Ok(Scalar::Int(*v)),
            Attr::Float(v) => Ok(Scalar::Float(*v)),
            Attr::Bool(v) => Ok(Scalar::Bool(*v)),
            Attr::Str(s) if s == "inf" => Ok(Scalar::Float(f64::INFINITY)),
            Attr::Str(s) if s == "-inf" => Ok(Scalar::Float(f64::NEG_INFINITY)),
            Attr::Str(s) if s == "nan" => Ok(Scalar::Float(f64::NAN)),
            other => self.wrong(name, "a number", other),
        }
    }
    /// A number as f64.
    ///
    /// # Errors
    /// `InvalidArgument` if it is missing or something else.
    pub fn f64(&self, name: &str) -> Result<f64> {
        self.scalar(name).map(Scalar::to_f64)
    }
    /// An integer, which may be negative.
    ///
    /// # Errors
    /// `InvalidArgument` if it is missing or something else.
    pub fn int(&self, name: &str) -> Result<i64> {
        match self.attr(name)? {
            Attr::Int(v) => Ok(*v),
            other => self.wrong(name, "an integer", other),
        }
    }
    /// An axis or index, which may be negative.
    ///
    /// # Errors
    /// `InvalidArgument` if it is missing or something else.
    pub fn dim(&self, name: &str) -> Result<isize> {
        self.int(name).map(|v| v as isize)
    }
    /// A size.
    ///
    /// # Errors
    /// `InvalidArgument` if it is missing, negative or something else.
    pub fn size(&self, name: &str) -> Result<usize> {
        let v = self.int(name)?;
        usize::try_from(v).or_else(|_| self.wrong(name, "a size", &Attr::Int(v)))
    }
    /// A truth value.
    ///
    /// # Errors
    /// `InvalidArgument` if it is missing or something else.
    pub fn bool(&self, name: &str) -> Result<bool> {
        match self.attr(name)? {
            Attr::Bool(v) => Ok(*v),
            other => self.wrong(name, "true or false", other),
        }
    }
    /// A string.
    ///
    /// # Errors
    /// `InvalidArgument` if it is missing or something else.
    pub fn str(&self, name: &str) -> Result<&str> {
        match self.attr(name)? {
            Attr::Str(v) => Ok(v),
            other => self.wrong(name, "a word", other),
        }
    }
    /// The items of a list.
    ///
    /// # Errors
    /// `InvalidArgument` if it is missing or something else.
    pub fn list(&self, name: &str) -> Result<&[Attr]> {
        match self.attr(name)? {
            Attr::List(v) => Ok(v),
            other => self.wrong(name, "a list", other),
        }
    }
    /// Several axes or indices: a list, or one integer alone.
    ///
    /// # Errors
    /// `InvalidArgument` if it is missing or something else.
    pub fn dims(&self, name: &str) -> Result<Vec<isize>> {
        let one = |a: &Attr| match a {
            Attr::Int(v) => Ok(*v as isize),
            other => self.wrong(name, "a list of integers", other),
        };
        match self.attr(name)? {
            Attr::List(v) => v.iter().map(one).collect(),
            other => Ok(vec![one(other)?]),
        }
    }
    /// Several sizes: a list, or one integer alone.
    ///
    /// # Errors
    /// `InvalidArgument` if it is missing, one is negative, or something else.
    pub fn sizes(&self, name: &str) -> Result<Vec<usize>> {
        let one = |v: isize| usize::try_from(v).or_else(|_| self.wrong(name, "sizes", &Attr::Int(v as i64)));
        self.dims(name)?.into_iter().map(one).collect()
    }
    /// `f` of this attribute, or `None` if it is absent or null.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn maybe<'a, T>(
        &'a self,
        name: &'a str,
        f: impl FnOnce(&'a Self, &'a str) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.has(name) { f(self, name).map(Some) } else { Ok(None) }
    }
    /// The two operands of a binary op: `x` and `y`, or `x` and the attribute `scalar` on its side.
    ///
    /// # Errors
    /// `InvalidArgument` if one is missing; `DTypeMismatch` if the scalar does not fit `x`.
    pub fn pair(&self) -> Result<(V, V)> {
        let x = self.input("x")?;
        if let Some(y) = self.optional("y") {
            return Ok((x.clone(), y.clone()));
        }
        let s = x.scalar_like(self.scalar("scalar")?).map_err(|e| e.at(&self.op))?;
        Ok(if self.on_the_left()? { (s, x.clone()) } else { (x.clone(), s) })
    }
    /// Is the attribute scalar the first operand?
    ///
    /// # Errors
    /// `InvalidArgument` if that is not said.
    pub fn on_the_left(&self) -> Result<bool> {
        Ok(self.str("scalar_side")? == "left")
    }
}
