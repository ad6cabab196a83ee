// Package cis holds the table of docs/cis.md as a test: the controls of the CIS
// benchmark for Kubernetes, each judged by the rendered files.
package cis
