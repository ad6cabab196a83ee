// Package fencing decides how a host is fenced through its BMC: how long to
// wait first, what each answer of the BMC means, when to ask again, when to
// give up; and how long the wait must be for the BMCs of a site.
package fencing
