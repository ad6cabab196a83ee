// Package host holds tests of a whole agent, the process that every host runs,
// in its own network namespace: its requests to the API, its cost, and its
// behaviour without an API.
package host
