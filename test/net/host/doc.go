// Package host holds tests of a whole agent, the process that every host runs,
// in a network namespace of its own: what it asks of the API, what it costs,
// and how it goes on without an API.
package host
