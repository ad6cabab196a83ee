// Package fencing decides how a host is fenced through its BMC: how long to wait
// first, what each answer of the BMC means, when to ask again and when to give up.
// It also decides how long the wait must be for the BMCs of a site.
package fencing
