//! `application/x-www-form-urlencoded`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::settings::Encoding;
use super::super::style::Form;
use super::{Unsendable, field_schema};
use crate::restap::catalog::Style;

/// How the fields of a form or a multipart body are written.
#[derive(Debug, Default)]
pub(super) struct Fields {
    by_name: HashMap<Box<str>, Field>,
}

/// One field of which something is written or known.
#[derive(Debug)]
pub(super) struct Field {
    /// Where a style is written.
    pub(super) form: Option<Form>,
    pub(super) encoding: Encoding,
}

impl Fields {
    pub(super) fn new(encodings: &[(String, Encoding)], schema: Option<&Value>) -> Self {
        let mut by_name: HashMap<Box<str>, Field> = HashMap::new();
        for (name, encoding) in encodings {
            let styled = encoding.style.is_some() || encoding.explode.is_some() || encoding.allow_reserved;
            let form = styled.then(|| {
                let style = encoding.style.unwrap_or(Style::Form);
                let mut form = Form::new(style, encoding.explode, field_schema(schema, name));
                form.allow_reserved = encoding.allow_reserved;
                form
            });
            by_name.insert(name.as_str().into(), Field { form, encoding: encoding.clone() });
        }
        // OpenAPI 3.0 says of a field that it is bytes with its format.
        let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
        for (name, _) in properties.into_iter().flatten() {
            let property = field_schema(schema, name);
            let is_binary = |schema: &Value| schema.get("format").is_some_and(|format| format == "binary");
            if property.is_some_and(|property| is_binary(property) || property.get("items").is_some_and(is_binary)) {
                let field = by_name.entry(name.as_str().into());
                field.or_insert_with(|| Field { form: None, encoding: Encoding::default() }).encoding.binary = true;
            }
        }
        Self { by_name }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Field> {
        self.by_name.get(name)
    }

    /// The pairs of a form. Lists of plain values are repeated and all else stands in brackets, where no style is
    /// written.
    pub(super) fn form(&self, value: &Value) -> Result<String, Unsendable> {
        let mut pairs = Vec::new();
        for (name, value) in object(value)? {
            match self.get(name).and_then(|field| field.form.as_ref()) {
                // A form has no way to say it.
                _ if value.is_null() => {}
                Some(form) => form.push_pairs(name, value, &mut pairs),
                None => Form::new(by_default(value), None, None).push_pairs(name, value, &mut pairs),
            }
        }
        Ok(pairs.join("&"))
    }
}

/// How a value is written where nothing is said.
fn by_default(value: &Value) -> Style {
    match value {
        Value::Array(items) if items.iter().any(|item| item.is_array() || item.is_object()) => Style::DeepObject,
        Value::Object(_) => Style::DeepObject,
        _ => Style::Form,
    }
}

/// The fields of a body, which must be an object.
pub(super) fn object(value: &Value) -> Result<&Map<String, Value>, Unsendable> {
    value.as_object().ok_or_else(|| Unsendable::root("must be an object, whose entries are the fields of a form"))
}
