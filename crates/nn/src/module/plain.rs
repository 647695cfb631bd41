//! Modules made of modules (lists, options, boxes, tuples), and plain values, which have nothing to
//! visit.
//!
//! A `Generator` or a bare `Tensor` is deliberately not a module: as a field it would be missed by
//! state dicts and `to_device`. They belong in a [`crate::RandomState`], a [`crate::Buffer`] or a
//! [`crate::Param`].

use super::{Module, Visit};
use elinvar_core::{DType, Shape};
use elinvar_ops::Backend;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

macro_rules! plain {
    ($($t:ty),*) => {$(
        impl<B: Backend> Module<B> for $t {
            fn visit<'a>(&'a self, _: &str, _: &mut Visit<'a, '_, B>) {}
        }
    )*};
}
plain!(
    bool,
    char,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    isize,
    u8,
    u16,
    u32,
    u64,
    usize,
    String,
    &'static str,
    DType,
    Shape,
    ()
);

impl<B: Backend, T: Send + Sync> Module<B> for PhantomData<T> {
    fn visit<'a>(&'a self, _: &str, _: &mut Visit<'a, '_, B>) {}
}

macro_rules! same_place {
    ($($t:ty),*) => {$(
        impl<B: Backend, T: Module<B> + ?Sized> Module<B> for $t {
            fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
                (**self).visit(name, visit);
            }
        }
    )*};
}
same_place!(Box<T>, Arc<T>);

impl<B: Backend, T: Module<B>> Module<B> for Option<T> {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        if let Some(inside) = self {
            inside.visit(name, visit);
        }
    }
}

fn list<'a, B: Backend, T: Module<B>>(items: &'a [T], name: &str, visit: &mut Visit<'a, '_, B>) {
    visit.module(name, &"", |visit| {
        for (i, item) in items.iter().enumerate() {
            item.visit(&i.to_string(), visit);
        }
    });
}

impl<B: Backend, T: Module<B>> Module<B> for Vec<T> {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        list(self, name, visit);
    }
}

impl<B: Backend, T: Module<B>, const N: usize> Module<B> for [T; N] {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        list(self, name, visit);
    }
}

impl<B: Backend, T: Module<B>> Module<B> for BTreeMap<String, T> {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        visit.module(name, &"", |visit| self.iter().for_each(|(key, item)| item.visit(key, visit)));
    }
}

macro_rules! tuple {
    ($($t:ident $i:tt),*) => {
        impl<B: Backend, $($t: Module<B>),*> Module<B> for ($($t,)*) {
            fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
                visit.module(name, &"", |visit| {
                    $(self.$i.visit(stringify!($i), visit);)*
                });
            }
        }
    };
}
tuple!(T0 0);
tuple!(T0 0, T1 1);
tuple!(T0 0, T1 1, T2 2);
tuple!(T0 0, T1 1, T2 2, T3 3);
tuple!(T0 0, T1 1, T2 2, T3 3, T4 4);
tuple!(T0 0, T1 1, T2 2, T3 3, T4 4, T5 5);
