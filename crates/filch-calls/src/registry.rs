//! Functions by name.

use crate::{Call, CallError, names};
use filch::BuildError;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{collections::BTreeMap, error::Error, fmt, sync::Arc};

/// The type of the source of a [`CallError`].
type BoxedError = Box<dyn Error + Send + Sync>;

/// Functions that can be called by name. Cheap to clone.
///
/// ```
/// use filch::Pool;
/// use filch_calls::Registry;
///
/// let registry = Registry::builder()
///     .function("Square", |x: i64| x * x)
///     .function("Add", |(a, b): (i64, i64)| a + b)
///     .try_function("Parse", |text: String| text.parse::<i64>())
///     .build()?;
/// let pool = Pool::builder().workers(2).build()?;
///
/// let square = registry.call::<i64>(&pool, "Square", &7)?;
/// assert_eq!(square.join()?, 49);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Registry {
    functions: Arc<BTreeMap<Arc<str>, Arc<Function>>>,
}

/// A registered function.
pub(crate) struct Function {
    name: Arc<str>,
    takes: String,
    gives: String,
    run: Box<Erased>,
}

/// A function whose argument and result types are erased.
type Erased = dyn Fn(&Function, &Value) -> Result<Value, CallError> + Send + Sync;

impl Function {
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Calls the function, which may panic.
    pub(crate) fn run(&self, args: &Value) -> Result<Value, CallError> {
        (self.run)(self, args)
    }

    fn read<A: DeserializeOwned>(&self, args: &Value) -> Result<A, CallError> {
        A::deserialize(args)
            .map_err(|error| CallError::arguments(&self.name, &self.takes, args, error))
    }

    fn write(&self, result: &impl Serialize) -> Result<Value, CallError> {
        serde_json::to_value(result)
            .map_err(|error| CallError::unwritable_result(&self.name, &self.gives, error))
    }
}

impl Registry {
    /// Returns a builder, which takes the functions.
    ///
    /// ```
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// assert_eq!(registry.run(Call::new("Square", &7)?)?, 49);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder {
            functions: Vec::new(),
        }
    }

    /// Returns the names of the functions, in alphabetical order.
    ///
    /// ```
    /// # use filch_calls::Registry;
    /// let registry = Registry::builder()
    ///     .function("Square", |x: i64| x * x)
    ///     .function("Negate", |x: i64| -x)
    ///     .build()?;
    /// assert_eq!(registry.names().collect::<Vec<_>>(), ["Negate", "Square"]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(|name| &**name)
    }

    /// Runs a call on this thread.
    ///
    /// ```
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder()
    ///     .function("Add", |(a, b): (i64, i64)| a + b)
    ///     .build()?;
    /// let received = r#"{"function": "Add", "args": [2, 3]}"#;
    /// assert_eq!(registry.run(Call::from_json(received)?)?, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// An unknown function, arguments that do not fit, a result that cannot be written as JSON, or
    /// the function's own error. A panic is propagated, as from any other call.
    pub fn run(&self, call: Call) -> Result<Value, CallError> {
        self.function(&call.function)?.run(&call.args)
    }

    pub(crate) fn function(&self, name: &str) -> Result<&Arc<Function>, CallError> {
        let unknown = || CallError::unknown(name, names::suggestion(name, self.names()));
        self.functions.get(name).ok_or_else(unknown)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signature = |function: &Function| format!("{} -> {}", function.takes, function.gives);
        let functions = self.functions.values();
        f.debug_map()
            .entries(functions.map(|function| (&function.name, signature(function))))
            .finish()
    }
}

/// Builds a [`Registry`].
///
/// ```
/// use filch_calls::Registry;
///
/// let twice = Registry::builder()
///     .function("Square", |x: i64| x * x)
///     .function("Square", |x: f64| x * x)
///     .build();
/// assert!(twice.unwrap_err().to_string().contains("two functions are called \"Square\""));
/// ```
#[must_use]
pub struct RegistryBuilder {
    functions: Vec<Function>,
}

impl RegistryBuilder {
    /// Adds a function of one argument; a tuple stands for several.
    ///
    /// ```
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder()
    ///     .function("Now", |(): ()| 1_234)
    ///     .function("Power", |(base, exponent): (u64, u32)| base.pow(exponent))
    ///     .build()?;
    /// assert_eq!(registry.run(Call::new("Now", &())?)?, 1_234);
    /// assert_eq!(registry.run(Call::new("Power", &(2, 10))?)?, 1_024);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn function<A, R, F>(self, name: impl Into<String>, f: F) -> Self
    where
        A: DeserializeOwned,
        R: Serialize,
        F: Fn(A) -> R + Send + Sync + 'static,
    {
        self.add::<A, R>(name.into(), move |function, args| {
            let args = function.read(args)?;
            function.write(&f(args))
        })
    }

    /// Adds a function that may fail. Its error becomes the source of a [`CallError`].
    ///
    /// ```
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder()
    ///     .try_function("Divide", |(a, b): (i64, i64)| {
    ///         a.checked_div(b).ok_or("nothing divides by zero")
    ///     })
    ///     .build()?;
    /// let error = registry.run(Call::new("Divide", &(1, 0))?).unwrap_err();
    /// assert!(error.is_failed());
    /// assert_eq!(error.to_string(), "Divide failed: nothing divides by zero");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_function<A, R, E, F>(self, name: impl Into<String>, f: F) -> Self
    where
        A: DeserializeOwned,
        R: Serialize,
        E: Into<BoxedError>,
        F: Fn(A) -> Result<R, E> + Send + Sync + 'static,
    {
        self.add::<A, R>(name.into(), move |function, args| {
            let args = function.read(args)?;
            match f(args) {
                Ok(result) => function.write(&result),
                Err(error) => Err(CallError::failed(&function.name, error.into())),
            }
        })
    }

    fn add<A, R>(
        mut self,
        name: String,
        run: impl Fn(&Function, &Value) -> Result<Value, CallError> + Send + Sync + 'static,
    ) -> Self {
        self.functions.push(Function {
            name: name.into(),
            takes: names::type_name::<A>(),
            gives: names::type_name::<R>(),
            run: Box::new(run),
        });
        self
    }

    /// Builds the registry.
    ///
    /// ```
    /// use filch_calls::Registry;
    ///
    /// let unnamed = Registry::builder().function("", |x: i64| x * x).build();
    /// assert!(unnamed.unwrap_err().to_string().contains("empty name"));
    /// ```
    ///
    /// # Errors
    /// When two functions have the same name, or one has an empty name.
    pub fn build(self) -> Result<Registry, BuildError> {
        let mut functions = BTreeMap::new();
        for function in self.functions {
            let name = function.name.clone();
            if name.is_empty() {
                let what = "a function has an empty name; give it a name to call it by";
                return Err(BuildError::config(what));
            }
            if let Some(other) = functions.insert(name, Arc::new(function)) {
                return Err(BuildError::config(format!(
                    "two functions are called {:?}; give one of them another name",
                    other.name
                )));
            }
        }
        Ok(Registry {
            functions: Arc::new(functions),
        })
    }
}

impl fmt::Debug for RegistryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.functions.iter().map(|function| &function.name);
        f.debug_list().entries(names).finish()
    }
}
