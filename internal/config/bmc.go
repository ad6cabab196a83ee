package config

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

	"github.com/holdfast/holdfast/internal/decide/vips"
)

// BMCAddress is the place of one system's Redfish service. Two spellings of
// one place give equal values.
type BMCAddress struct {
	// Host is a lower-case DNS name or a canonical address without brackets.
	Host string
	// Port is 443 unless the address names another one.
	Port uint16
	// System is the path of the system's resource, for example
	// /redfish/v1/Systems/1. Empty means the only system of the service.
	System string
}

// redfishSchemes are the spellings of Redfish over HTTPS that install
// configurations use, each also with "+https" behind it.
var redfishSchemes = []string{
	"redfish", "redfish-virtualmedia",
	"idrac-redfish", "idrac-virtualmedia",
	"ilo5-redfish", "ilo5-virtualmedia",
}

const systemsPath = "/redfish/v1/Systems/"

var fingerprint = regexp.MustCompile(`^([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}$`)

// IsFingerprint reports whether a text is the SHA-256 of a certificate: 64 hex
// digits, with or without colons between the bytes.
func IsFingerprint(s string) bool { return fingerprint.MatchString(s) }

// The mistakes of a BMC address. None quotes the address: it may hold a
// password.
var (
	errBMCForm     = errors.New("must be a URL such as https://10.0.0.5/redfish/v1/Systems/1")
	errBMCUserinfo = errors.New("must not hold a user name or password: they have fields of their own")
	errBMCIPMI     = errors.New("must be the Redfish URL, https://...: IPMI is not supported")
	errBMCPlain    = errors.New("must use https: the password would cross the network in clear")
	errBMCScheme   = errors.New("must begin with https:// or a Redfish form of it (redfish+https://, idrac-redfish+https://, ilo5-redfish+https://)")
	errBMCQuery    = errors.New("must not have a query or fragment")
	errBMCPort     = errors.New("the port must be between 1 and 65535")
	errBMCHost     = errors.New("the host must be a DNS name or an address")
	errBMCSpecial  = errors.New("the host must be an address that other hosts can reach")
	errBMCPath     = errors.New("the path must name one system, /redfish/v1/Systems/ID, or be left out if there is only one")
)

// ParseBMCAddress reads the Redfish URL of a system. Its errors hold nothing
// of the input.
func ParseBMCAddress(address string) (BMCAddress, error) {
	u, err := url.Parse(address)
	if err != nil || strings.ContainsAny(address, " \t\r\n") {
		return BMCAddress{}, errBMCForm
	}
	if u.User != nil || strings.Contains(address, "@") {
		return BMCAddress{}, errBMCUserinfo
	}
	if err := bmcScheme(u.Scheme); err != nil {
		return BMCAddress{}, err
	}
	if u.Host == "" || u.Opaque != "" {
		return BMCAddress{}, errBMCForm
	}
	if u.RawQuery != "" || u.ForceQuery || strings.Contains(address, "#") {
		return BMCAddress{}, errBMCQuery
	}
	host, err := bmcHost(u.Hostname())
	if err != nil {
		return BMCAddress{}, err
	}
	port, err := bmcPort(u)
	if err != nil {
		return BMCAddress{}, err
	}
	system, err := bmcSystem(u.Path)
	if err != nil {
		return BMCAddress{}, err
	}
	return BMCAddress{Host: host, Port: port, System: system}, nil
}

func bmcScheme(scheme string) error {
	base := strings.TrimSuffix(scheme, "+https")
	switch {
	case scheme == "https", slices.Contains(redfishSchemes, base):
		return nil
	case scheme == "ipmi", scheme == "":
		return errBMCIPMI
	case scheme == "http", slices.Contains(redfishSchemes, strings.TrimSuffix(scheme, "+http")):
		return errBMCPlain
	}
	return errBMCScheme
}

func bmcHost(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		if addr.Zone() != "" || !addr.IsValid() || vips.Unreachable(addr) != "" {
			return "", errBMCSpecial
		}
		return addr.String(), nil
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	if _, err := strconv.Atoi(last); err == nil || !isDNSName(name) {
		return "", errBMCHost // 10.0.0.300 is no name either
	}
	if name == "localhost" {
		return "", errBMCSpecial
	}
	return name, nil
}

func bmcPort(u *url.URL) (uint16, error) {
	if u.Port() == "" {
		return 443, nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || port == 0 {
		return 0, errBMCPort
	}
	return uint16(port), nil
}

func bmcSystem(p string) (string, error) {
	if p == "" || path.Clean(p) == "/" || path.Clean(p) == "/redfish/v1" {
		return "", nil
	}
	clean := path.Clean(p)
	id, ok := strings.CutPrefix(clean, systemsPath)
	if !ok || id == "" || strings.ContainsFunc(id, notInID) {
		return "", errBMCPath
	}
	return clean, nil
}

// notInID are the characters that the ID of a system cannot have.
func notInID(r rune) bool { return r == '/' || r <= ' ' || r > '~' }

// URL returns the address of the service, without the system's path.
func (a BMCAddress) URL() string {
	host := a.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("https://%s:%d", host, a.Port)
}

// sameSystem reports whether two addresses lead to one system. A service
// without a path stands for its only system, hence for each one named there.
func (a BMCAddress) sameSystem(b BMCAddress) bool {
	if a.Host != b.Host || a.Port != b.Port {
		return false
	}
	return a.System == b.System || a.System == "" || b.System == ""
}

// canonicalMAC writes a 48-bit hardware address as 02:00:00:aa:bb:cc. It is
// false for anything else, and for addresses that no single NIC has.
func canonicalMAC(s string) (string, bool) {
	sep := ":"
	if strings.Contains(s, "-") {
		sep = "-"
	}
	octets := strings.Split(s, sep)
	if len(octets) != 6 {
		return "", false
	}
	zero := true
	for _, o := range octets {
		n, err := strconv.ParseUint(o, 16, 8)
		if err != nil || len(o) != 2 {
			return "", false
		}
		zero = zero && n == 0
	}
	first, _ := strconv.ParseUint(octets[0], 16, 8) // parsed above
	if zero || first&1 != 0 {
		return "", false
	}
	return strings.ToLower(strings.Join(octets, ":")), true
}
