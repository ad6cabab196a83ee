// Package crmmon reads the XML of crm_mon, which is Pacemaker's status, in all
// of its versions and within bounds. No other package parses that text.
package crmmon
