// Package bmc defines the forms of a BMC's address, of its certificate's
// fingerprint and of the settings of a connection to it.
package bmc

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/model/netaddr"
)

// Address is the place of one system's Redfish service. Two spellings of
// one place give equal values.
type Address struct {
	// Host is a lower-case DNS name or a canonical address without brackets.
	Host string
	// Port is 443 unless the address names another one.
	Port uint16
	// System is the path of the system's resource, for example
	// /redfish/v1/Systems/1. Empty means the only system of the service.
	System string
}

// redfishSchemes are the spellings of Redfish over HTTPS in install-configs,
// each also with "+https" behind it.
var redfishSchemes = []string{
	"redfish", "redfish-virtualmedia",
	"idrac-redfish", "idrac-virtualmedia",
	"ilo5-redfish", "ilo5-virtualmedia",
}

const systemsPath = "/redfish/v1/Systems/"

// The values for whether the certificate of a BMC is verified.
const (
	VerificationEnabled  = "Enabled"
	VerificationDisabled = "Disabled"
)

// The versions of TLS that are used with a BMC; empty stands for Default.
const (
	TLSDefault = "Default"
	TLSLegacy  = "Legacy"
)

var fingerprint = regexp.MustCompile(`^([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}$`)

// IsFingerprint reports whether a text is the SHA-256 of a certificate: 64 hex
// digits, with or without colons between the bytes.
func IsFingerprint(s string) bool { return fingerprint.MatchString(s) }

// ErrForm says that a text is no URL, so that nobody can tell which part of it
// may be a secret.
var ErrForm = errors.New("must be a URL such as https://10.0.0.5/redfish/v1/Systems/1")

// The other mistakes of an address. No text quotes it: it may hold a password.
var (
	errUserinfo = errors.New("must not hold a user name or password: they have fields of their own")
	errIPMI     = errors.New("must be the Redfish URL, https://...: IPMI is not supported")
	errPlain    = errors.New("must use https: the password would cross the network in clear text")
	errScheme   = errors.New("must begin with https:// or a Redfish form of it (redfish+https://, idrac-redfish+https://, ilo5-redfish+https://)")
	errQuery    = errors.New("must not have a query or fragment")
	errPort     = errors.New("the port must be between 1 and 65535")
	errHost     = errors.New("the host must be a DNS name or an address")
	errSpecial  = errors.New("the host must be an address that other hosts can reach")
	errPath     = errors.New("the path must name one system, /redfish/v1/Systems/ID, or be left out if there is only one")
)

// Parse reads the Redfish URL of a system. Its errors hold nothing
// of the input.
func Parse(address string) (Address, error) {
	u, err := url.Parse(address)
	if err != nil || strings.ContainsAny(address, " \t\r\n") {
		return Address{}, ErrForm
	}
	if u.User != nil || strings.Contains(address, "@") {
		return Address{}, errUserinfo
	}
	if err := schemeOf(u.Scheme); err != nil {
		return Address{}, err
	}
	if u.Host == "" || u.Opaque != "" {
		return Address{}, ErrForm
	}
	if u.RawQuery != "" || u.ForceQuery || strings.Contains(address, "#") {
		return Address{}, errQuery
	}
	host, err := hostOf(u.Hostname())
	if err != nil {
		return Address{}, err
	}
	port, err := portOf(u)
	if err != nil {
		return Address{}, err
	}
	system, err := systemOf(u.Path)
	if err != nil {
		return Address{}, err
	}
	return Address{Host: host, Port: port, System: system}, nil
}

func schemeOf(scheme string) error {
	base := strings.TrimSuffix(scheme, "+https")
	switch {
	case scheme == "https", slices.Contains(redfishSchemes, base):
		return nil
	case scheme == "ipmi", scheme == "":
		return errIPMI
	case scheme == "http", slices.Contains(redfishSchemes, strings.TrimSuffix(scheme, "+http")):
		return errPlain
	}
	return errScheme
}

func hostOf(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		if addr.Zone() != "" || !addr.IsValid() || netaddr.Unreachable(addr) != "" {
			return "", errSpecial
		}
		return addr.String(), nil
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	if _, err := strconv.Atoi(last); err == nil || !netaddr.IsName(name) {
		return "", errHost // 10.0.0.300 ends here: it is no name either
	}
	if name == "localhost" {
		return "", errSpecial
	}
	return name, nil
}

func portOf(u *url.URL) (uint16, error) {
	if u.Port() == "" {
		return 443, nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || port == 0 {
		return 0, errPort
	}
	return uint16(port), nil
}

func systemOf(p string) (string, error) {
	if p == "" || path.Clean(p) == "/" || path.Clean(p) == "/redfish/v1" {
		return "", nil
	}
	clean := path.Clean(p)
	id, ok := strings.CutPrefix(clean, systemsPath)
	if !ok || id == "" || strings.ContainsFunc(id, notInID) {
		return "", errPath
	}
	return clean, nil
}

// notInID reports whether a character cannot be part of a system's ID.
func notInID(r rune) bool { return r == '/' || r <= ' ' || r > '~' }

// URL returns the address of the service, without the system's path.
func (a Address) URL() string {
	host := a.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("https://%s:%d", host, a.Port)
}

// SameSystem reports whether two addresses lead to one system. An address
// without a path stands for the only system of its service, and so for each one
// named there.
func (a Address) SameSystem(b Address) bool {
	if a.Host != b.Host || a.Port != b.Port {
		return false
	}
	return a.System == b.System || a.System == "" || b.System == ""
}
