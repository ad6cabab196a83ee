// Package crmmon reads the XML of crm_mon, which is Pacemaker's status, of all of
// its versions and within bounds. It is the one reading of that text.
package crmmon
