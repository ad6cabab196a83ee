// Package ignition writes Ignition configs: the bytes from which a host's first
// boot sets it up. The same Config gives the same bytes, and every result has
// passed the parser and validation of the very spec version that it claims.
//
// It uses no network: internal/install/apply fetches,
// internal/install/configserver serves.
package ignition

import (
	"io/fs"
	"regexp"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Config is a host's configuration. Lists may have any order: files,
// directories, links, units and users are written sorted by path or name.
type Config struct {
	// Files replace the host's files at their path. Their mode is always written
	// out, so that a host's default never widens a secret.
	Files []state.File
	// Directories are made if absent; existing ones are kept.
	Directories []Directory
	Links       []Link
	Units       []Unit
	Users       []User
	// Merge names further configurations that the host fetches and lays over
	// this one, in this order.
	Merge []Source
}

// Directory is one directory of the host.
type Directory struct {
	Path string
	// Mode holds the permission bits. Zero means 0755.
	Mode fs.FileMode
}

// Link is one symbolic link of the host.
type Link struct {
	Path   string
	Target string
}

// Unit is one systemd unit. Without contents it stands for a unit that the host
// already has.
type Unit struct {
	Name     string
	Contents string
	// Enabled makes the unit start at boot; contents then need an [Install]
	// section.
	Enabled bool
	// Masked keeps anything from starting the unit.
	Masked  bool
	Dropins []Dropin
}

// unitName matches the names that systemd accepts for a unit (systemd.unit(5))
// and that are neither options nor paths.
var unitName = regexp.MustCompile(`^[A-Za-z0-9:_.\\][A-Za-z0-9:_.\\@-]*$`)

// ValidUnitName reports whether a unit, or a file of one, may have a name.
func ValidUnitName(name string) bool { return len(name) <= 255 && unitName.MatchString(name) }

// Dropin is one file below a unit's .d directory; its name ends with .conf.
type Dropin struct {
	Name     string
	Contents string
}

// User is one account of the host, made if absent.
type User struct {
	Name string
	// SSHAuthorizedKeys holds lines of authorized_keys.
	SSHAuthorizedKeys []string
	// Groups are supplementary groups.
	Groups []string
}

// Source is the place of a further configuration.
type Source struct {
	// URL is https, unless Token is empty.
	URL string
	// CA holds the PEM certificates that the server's must chain to. Empty
	// means those of the host.
	CA []byte
	// Token is sent as `Authorization: Bearer`. It is a secret: a Config with a
	// token belongs in a file of mode 0600.
	Token string
}

// Pointer returns a configuration with nothing but the place of the real one, in
// the oldest spec version that has request headers (3.1.0). The result holds the
// token.
func Pointer(url, caPEM, token string) ([]byte, error) {
	return Marshal(Config{Merge: []Source{{URL: url, CA: []byte(caPEM), Token: token}}}, pointerVersion)
}

// pointerVersion is the first spec version with httpHeaders.
// https://coreos.github.io/ignition/migrating-configs (3.0.0 to 3.1.0)
const pointerVersion = "3.1.0"
