//! Schemas within budgets: what is published is as much as fits, and never says less than what is accepted.
//!
//! A reduced schema is a weaker one: whatever fits the whole schema fits it too.

use std::sync::Arc;

use crate::restap::catalog::{Catalog, Parameter};
use crate::restap::{Capability, DETAIL_PATH};
use crate::schema::{fit, fits, size};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{CATALOG_BYTES_MAX, TooLarge};

/// Bytes that each part of an entry may have.
#[derive(Debug, Clone, Copy)]
struct Budget {
    input: usize,
    output: usize,
    parameters: usize,
    description: usize,
}

/// The budgets of an entry, and those that are tried where the whole catalog would be too large.
const BUDGETS: [Budget; 6] = [
    Budget { input: 16 << 10, output: 4 << 10, parameters: 4 << 10, description: 4 << 10 },
    Budget { input: 8 << 10, output: 2 << 10, parameters: 4 << 10, description: 1 << 10 },
    Budget { input: 4 << 10, output: 1 << 10, parameters: 2 << 10, description: 500 },
    Budget { input: 2 << 10, output: 0, parameters: 1 << 10, description: 300 },
    Budget { input: 512, output: 0, parameters: 512, description: 200 },
    Budget { input: 0, output: 0, parameters: 0, description: 80 },
];

/// What stays as it is in the id of a capability that stands in a path.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Bytes of a parameter's description where the parameters are over their budget.
const SHORT_DESCRIPTION: usize = 80;

/// The document, and the ids of the entries that had to be reduced.
pub(super) fn within_budgets(whole: Catalog) -> Result<(Vec<u8>, Vec<String>), TooLarge> {
    let mut catalog = whole;
    let mut bytes = 0;
    for budget in BUDGETS {
        for entry in &mut catalog.capabilities {
            reduce(entry, budget);
        }
        if fits(&catalog, CATALOG_BYTES_MAX) {
            let reduced = catalog.capabilities.iter().filter(|entry| entry.x_truncated);
            let ids = reduced.map(|entry| entry.id.clone()).collect();
            return Ok((serde_json::to_vec(&catalog).unwrap_or_default(), ids));
        }
        bytes = size(&catalog);
    }
    Err(TooLarge { bytes })
}

fn reduce(entry: &mut Capability, budget: Budget) {
    let input = entry.input_schema.as_ref().and_then(|schema| fit(schema, budget.input)).map(Arc::new);
    let output = entry.output_schema.as_ref().and_then(|schema| fit(schema, budget.output)).map(Arc::new);
    let parameters = fit_parameters(&mut entry.parameters, budget.parameters);
    let description = entry.description.as_mut().is_some_and(|text| shorten(text, budget.description));
    if input.is_none() && output.is_none() && !parameters && !description {
        return;
    }
    if input.is_some() {
        entry.input_schema = input;
    }
    if output.is_some() {
        // Nothing is lost that a caller needs in order to call.
        entry.output_schema = output.filter(|_| budget.output > 0);
    }
    entry.x_truncated = true;
    entry.x_detail = Some(format!("{DETAIL_PATH}{}", utf8_percent_encode(&entry.id, UNRESERVED)));
}

/// Schemas go first, the largest first, then long descriptions. No parameter is left out.
fn fit_parameters(parameters: &mut [Parameter], budget: usize) -> bool {
    if fits(&parameters, budget) {
        return false;
    }
    let mut by_size: Vec<_> = (0..parameters.len()).collect();
    let size_of =
        |number: &usize| parameters.get(*number).and_then(|parameter| parameter.schema.as_ref()).map_or(0, size);
    by_size.sort_by_key(|number| std::cmp::Reverse(size_of(number)));
    let mut left = size(&parameters);
    for number in by_size {
        let schema = parameters.get_mut(number).and_then(|parameter| parameter.schema.take());
        left -= schema.map_or(0, |schema| size(&schema));
        if left <= budget {
            return true;
        }
    }
    for description in parameters.iter_mut().filter_map(|parameter| parameter.description.as_mut()) {
        shorten(description, SHORT_DESCRIPTION);
    }
    true
}

fn shorten(text: &mut String, bytes: usize) -> bool {
    let shortened = text.len() > bytes;
    if shortened {
        text.truncate(text.floor_char_boundary(bytes.saturating_sub('…'.len_utf8())));
        text.push('…');
    }
    shortened
}

#[cfg(test)]
mod tests;
