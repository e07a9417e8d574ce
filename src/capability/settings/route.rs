//! `Route`: what is asked of the service.

use std::time::Duration;

use http::HeaderName;
use serde_json::json;

use super::super::send::is_xml_name;
use super::mapping::{ErrorRule, ReceiveAs, Transform, fits};
use super::parameter::STYLES;
use crate::restap::catalog::Style;
use crate::yaml::{ByteSize, Fields, Mismatch, Period, Problem, Scalar, Slot, Value as _};

/// `route:` of a capability.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The name of an upstream.
    pub upstream: String,
    /// The service's method; any.
    pub method: http::Method,
    /// The service's path template, under the upstream's own path.
    pub path: String,
    /// Query parameters to add; values may hold `{name}` of the endpoint.
    pub query: Vec<(String, String)>,
    /// Headers to set; values may hold `{name}` of the endpoint.
    pub headers: Vec<(HeaderName, String)>,
    /// Headers of the caller that are withheld unless named here.
    pub forward_headers: Vec<HeaderName>,
    /// The largest request body in bytes; `None` is unbounded streaming, but `limits.body` for JSON.
    pub body: Option<u64>,
    /// The largest response body in bytes, where it is bounded.
    pub response_body: Option<u64>,
    /// Over the whole exchange.
    pub timeout: Option<Duration>,
    /// For how long an answer may be given to others who ask the same.
    pub cache: Option<Duration>,
    /// What the service gets the body as.
    pub send_as: SendAs,
    /// How fields of a form or a multipart body are written, where not by default.
    pub encoding: Vec<(String, Encoding)>,
    /// The element around an XML body; without one an object of one entry is that element, and `request` is around
    /// any other.
    pub xml_root: Option<String>,
    /// How answers are read, where they do not only pass.
    pub receive_as: Option<ReceiveAs>,
    /// What becomes of JSON on its way.
    pub transform: Transform,
    /// Answers that are errors; the first that applies counts.
    pub errors: Vec<ErrorRule>,
}

/// What the service gets a body as; callers send JSON, or what the service takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SendAs {
    /// As it came.
    #[default]
    Json,
    /// `application/x-www-form-urlencoded`; in the query where the method is GET or HEAD.
    Form,
    /// `multipart/form-data`.
    Multipart,
    /// XML.
    Xml,
    /// The text of a JSON string.
    Text,
    /// Bytes as they came, whatever they are; never looked at.
    Raw,
}

/// How one field of a form or a multipart body is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoding {
    /// `form` for lists of plain values, `deepObject` for all others unless set; in a multipart body `json`.
    pub style: Option<Style>,
    /// As for parameters.
    pub explode: Option<bool>,
    /// As for parameters.
    pub allow_reserved: bool,
    /// The media type of a part of a multipart body.
    pub content_type: Option<String>,
    /// The name of a file that a part says to be.
    pub filename: Option<String>,
    /// Whether callers send bytes in base64, which the service gets as they are.
    pub binary: bool,
}

impl Route {
    /// The same request as the caller's.
    pub fn to(upstream: &str, method: &http::Method, path: &str) -> Self {
        Self {
            upstream: upstream.to_owned(),
            method: method.clone(),
            path: path.to_owned(),
            query: Vec::new(),
            headers: Vec::new(),
            forward_headers: Vec::new(),
            body: None,
            response_body: None,
            timeout: None,
            cache: None,
            send_as: SendAs::default(),
            encoding: Vec::new(),
            xml_root: None,
            receive_as: None,
            transform: Transform::default(),
            errors: Vec::new(),
        }
    }

    pub(super) fn read(&mut self, fields: &mut Fields<'_, '_>) {
        let upstream = fields.optional("upstream", "The name or the URL of the service; the agent's unless written.");
        self.upstream = upstream.unwrap_or_else(|| std::mem::take(&mut self.upstream));
        let method = fields.with("method", "The service's method, any; the capability's unless written.", |slot| {
            slot.parsed("a method such as PATCH", None)
        });
        self.method = method.unwrap_or_else(|| self.method.clone());
        let path = fields.optional("path", "The service's path; the endpoint unless written. May hold its {name}s.");
        self.path = path.unwrap_or_else(|| std::mem::take(&mut self.path));
        let doc = "Parameters to add to the query. Values may hold {name}s of the endpoint.";
        let query = fields
            .with("query", doc, |slot| slot.map(|name, slot| Some((name.to_owned(), Scalar::take(slot)?.into()))));
        self.query = query.unwrap_or_default();
        let doc = "Headers to set. Values may hold {name}s of the endpoint.";
        self.headers = fields.with("headers", doc, headers).unwrap_or_default();
        let doc = "Headers of the caller that are withheld unless they are named here, such as authorization.";
        self.forward_headers = fields.optional("forward_headers", doc).unwrap_or_default();
        let doc = "The largest request body; `limits.body` for JSON and no bound for others unless written.";
        self.body = fields.optional::<ByteSize>("body", doc).map(Into::into);
        self.response_body = fields.optional::<ByteSize>("response_body", "The largest response body.").map(Into::into);
        self.timeout = fields.optional::<Period>("timeout", "Over the whole exchange.").map(Into::into);
        let doc = "For how long an answer to GET may be given to others who ask the same; none is kept unless written.";
        self.cache = fields.optional::<Period>("cache", doc).map(Into::into);
        if !matches!(self.method, http::Method::GET | http::Method::HEAD) {
            fields.useless(&["cache"], "only answers to GET and HEAD are kept");
        }
        let doc = "What the service gets a body as; callers send JSON: json, form, multipart, xml, text or raw.";
        self.send_as = fields.word("send_as", &SendAs::WORDS, SendAs::Json, doc);
        let doc = "How fields of a form or multipart body are written, by name, where not by default.";
        let encoding = fields.with("encoding", doc, |slot| {
            slot.map(|name, slot| Some((name.to_owned(), Encoding::take(slot, self.send_as)?)))
        });
        self.encoding = encoding.unwrap_or_default();
        let doc = "The element around an XML body; else an object's only entry is that element, or `request` is.";
        self.xml_root = fields.with("xml_root", doc, xml_root);
        if !matches!(self.send_as, SendAs::Form | SendAs::Multipart) {
            fields.useless(&["encoding"], "only `send_as: form` and `send_as: multipart` have fields");
        }
        if self.send_as != SendAs::Xml {
            fields.useless(&["xml_root"], "only `send_as: xml` has elements");
        }
        let doc = "How answers are read and made UTF-8 and JSON: auto (by their type), json, xml, csv, form, text or binary; \
                   without it they pass as they are, unless something else here looks at them.";
        self.receive_as = fields.with("receive_as", doc, ReceiveAs::take);
        self.transform = fields.with("transform", "Mappings in jq.", Transform::take).unwrap_or_default();
        let doc = "Answers that are errors although they do not say so; the first that applies counts.";
        self.errors = fields.with("errors", doc, |slot| slot.list(ErrorRule::take)).unwrap_or_default();
        fits(fields, self.receive_as, self.send_as == SendAs::Raw);
    }
}

impl SendAs {
    const WORDS: [(&str, Self); 6] = [
        ("json", Self::Json),
        ("form", Self::Form),
        ("multipart", Self::Multipart),
        ("xml", Self::Xml),
        ("text", Self::Text),
        ("raw", Self::Raw),
    ];
}

impl Encoding {
    fn take(slot: Slot<'_, '_>, send_as: SendAs) -> Option<Self> {
        slot.section("encoding", |fields| {
            let style = fields.with("style", "How a list or an object is written, as in a query.", |slot| {
                let of_fields =
                    |(_, style): &(_, Style)| !matches!(style, Style::Simple | Style::Label | Style::Matrix);
                slot.word(&STYLES.into_iter().filter(of_fields).collect::<Vec<_>>())
            });
            let explode = fields.optional("explode", "Whether each item or property stands by itself.");
            let doc = "Whether reserved characters are left unencoded.";
            let allow_reserved = fields.or("allow_reserved", false, doc);
            let content_type = fields.with("content_type", "The media type of a multipart body's part.", header_text);
            let filename = fields.optional("filename", "The file name of a multipart body's part.");
            let doc = "Whether callers send bytes in base64, which the service gets as they are.";
            let binary = fields.or("binary", false, doc);
            match send_as {
                SendAs::Form => {
                    fields.useless(&["content_type", "filename", "binary"], "a form's fields are text");
                }
                SendAs::Multipart => fields.useless(&["allow_reserved"], "nothing is encoded in a multipart body"),
                _ => {}
            }
            if style == Some(Style::Json) {
                fields.useless(&["explode"], "JSON has no other form");
            }
            Some(Self { style, explode, allow_reserved, content_type, filename, binary })
        })
    }
}

fn header_text(slot: Slot<'_, '_>) -> Option<String> {
    slot.value(json!({"type": "string"}), |node| match node.as_text() {
        Some(text) if text.contains('/') && http::HeaderValue::from_str(text).is_ok() => Ok(text.to_owned()),
        _ => Err(Mismatch::found(node, "a media type such as application/json")),
    })
}

fn xml_root(slot: Slot<'_, '_>) -> Option<String> {
    slot.value(json!({"type": "string"}), |node| match node.as_text() {
        Some(name) if is_xml_name(name) => Ok(name.to_owned()),
        _ => Err(Mismatch::found(node, "the name of an element, such as order")),
    })
}

fn headers(slot: Slot<'_, '_>) -> Option<Vec<(HeaderName, String)>> {
    slot.map(|key, slot| {
        let name = key.parse().ok();
        if name.is_none() {
            slot.problem(|node| Problem::error(node, format!("{key:?} can't be the name of a header")).at_key());
        }
        let (node, report) = (slot.node(), slot.report());
        let Scalar(value) = Scalar::take(slot)?;
        if http::HeaderValue::from_str(&value).is_err() {
            report?.add(Problem::error(node?, "a header can't carry this value"));
        }
        Some((name?, value))
    })
}
