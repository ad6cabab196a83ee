package backup

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/secret"
)

// Config is the configuration of a site's backups.
type Config struct {
	// Schedule is a cron text in TimeZone. Keep is the number of its backups that a host keeps.
	Schedule string `json:"schedule,omitempty"`
	TimeZone string `json:"timeZone,omitempty"`
	Keep     int    `json:"keep,omitempty"`
	// Recipients are public keys of age. Everything that leaves a host is encrypted to all of
	// them. Their private keys must not be on the site.
	Recipients []string `json:"recipients,omitempty"`
	Targets    []Target `json:"targets,omitempty"`
}

// Target is a place outside of the host. Exactly one of its kinds is set.
type Target struct {
	Name      string     `json:"name"`
	Directory *Directory `json:"directory,omitempty"`
	S3        *S3        `json:"s3,omitempty"`
	SFTP      *SFTP      `json:"sftp,omitempty"`
}

// Directory is a folder of the host: another disk, or an NFS mount.
type Directory struct {
	Path string `json:"path"`
	// Marker is the name of a file in the folder, which a person puts there. Without it nothing
	// is written: if a mount is gone, its folder is on the host's own disk.
	Marker string `json:"marker,omitempty"`
}

// DefaultMarker is the marker of a Directory that names none.
const DefaultMarker = "holdfast-backups"

// S3 is a bucket.
type S3 struct {
	Endpoint  string      `json:"endpoint"`
	Bucket    string      `json:"bucket"`
	Prefix    string      `json:"prefix,omitempty"`
	Region    string      `json:"region,omitempty"`
	AccessKey string      `json:"accessKey"`
	SecretKey secret.Text `json:"secretKey"`
	// CA holds certificates in PEM that the endpoint may use, besides those that the host
	// trusts.
	CA string `json:"ca,omitempty"`
}

// SFTP is a folder of an SSH server.
type SFTP struct {
	// Server is a name or an address, with an optional port.
	Server string `json:"server"`
	User   string `json:"user"`
	// HostKeys are the public keys of the server, as ssh-keyscan prints them with or without the
	// name, or their fingerprints. No other key is accepted.
	HostKeys   []string    `json:"hostKeys"`
	Password   secret.Text `json:"password,omitempty"`
	PrivateKey secret.Text `json:"privateKey,omitempty"`
	Path       string      `json:"path"`
}

// Bounds and defaults of a Config.
const (
	DefaultKeep   = 7
	maxKeep       = 1000
	maxTargets    = 8
	maxRecipients = 16
)

// Format implements fmt.Formatter; it prints no secrets.
func (c Config) Format(f fmt.State, _ rune) {
	type plain Config
	_, _ = fmt.Fprintf(f, "%+v", plain(c))
}

// Format implements fmt.Formatter; it prints no secrets.
func (t Target) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, t.String()) }

// Format implements fmt.Formatter; it prints no secrets.
func (s S3) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

// Format implements fmt.Formatter; it prints no secrets.
func (s SFTP) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

// String describes a target without credentials.
func (t Target) String() string {
	where := "nowhere"
	switch {
	case t.Directory != nil:
		where = "directory " + t.Directory.Path
	case t.S3 != nil:
		where = t.S3.String()
	case t.SFTP != nil:
		where = t.SFTP.String()
	}
	return t.Name + " (" + where + ")"
}

// String describes a bucket without credentials.
func (s S3) String() string {
	return "bucket " + strings.Trim(s.Bucket+"/"+s.Prefix, "/") + " at " + hideUser(s.Endpoint)
}

// String describes the folder of a server without credentials.
func (s SFTP) String() string {
	server := s.Server
	if a, err := netip.ParseAddr(server); err == nil && a.Is6() {
		server = "[" + server + "]"
	}
	return "sftp://" + s.User + "@" + server + s.Path
}

// hideUser removes the part of a URL before an @. A URL with a password there is refused, and
// the refusal must not print the password either.
func hideUser(url string) string {
	if i := strings.LastIndex(url, "@"); i >= 0 {
		return secret.Redacted + url[i:]
	}
	return url
}

// Mistakes has all mistakes of a Config.
type Mistakes field.ErrorList

// Error implements error: one line with the number of mistakes, then a line for each.
func (m Mistakes) Error() string {
	count := fmt.Sprintf("%d mistakes", len(m))
	if len(m) == 1 {
		count = "1 mistake"
	}
	lines := []string{"the configuration of backups has " + count + ":"}
	for _, e := range m {
		lines = append(lines, "  "+e.Error())
	}
	return strings.Join(lines, "\n")
}

// Parse reads a Config in YAML or JSON. The error is of the type Mistakes; it has every mistake
// and no secret. schedule checks a schedule and its time zone; decide/backup.CheckSchedule makes
// it. An empty document is a Config with the defaults.
func Parse(data []byte, schedule func(text, zone string) error) (Config, error) {
	var c Config
	var mistakes field.ErrorList
	var broken []string
	if len(strings.TrimSpace(string(data))) > 0 {
		mistakes, broken = config.DecodeStrict("configuration of backups", data, &c)
	}
	for _, e := range c.mistakes(schedule) {
		if !beneath(e.Field, broken) {
			mistakes = append(mistakes, e)
		}
	}
	if len(mistakes) > 0 {
		slices.SortStableFunc(mistakes, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
		return Config{}, Mistakes(mistakes)
	}
	return c.complete(), nil
}

// beneath reports whether a field cannot be checked, because it or a field that holds it could
// not be read.
func beneath(path string, broken []string) bool {
	return slices.ContainsFunc(broken, func(b string) bool {
		return b == "" || path == b || strings.HasPrefix(path, b+".") || strings.HasPrefix(path, b+"[")
	})
}

// Encode encodes a Config with its credentials: keep it in a file of mode 0600.
func (c Config) Encode() ([]byte, error) { return config.Reveal(c) }

func (c Config) complete() Config {
	if c.Keep == 0 {
		c.Keep = DefaultKeep
	}
	for i, t := range c.Targets {
		if t.Directory != nil && t.Directory.Marker == "" {
			d := *t.Directory
			d.Marker = DefaultMarker
			c.Targets[i].Directory = &d
		}
	}
	return c
}

// Warnings lists settings that are allowed, but may be regretted.
func (c Config) Warnings() []string {
	var out []string
	if len(c.Targets) > 0 && len(c.Recipients) == 1 {
		out = append(out, "recipients: there is only one: if its private key is lost, every backup at the targets is lost; "+
			"add the key of a second person or of a safe")
	}
	if len(c.Targets) == 0 {
		out = append(out, "targets: there are none, and backups that lie only on the hosts are lost with them: name a place outside of the site")
	}
	for i, t := range c.Targets {
		if t.S3 != nil && strings.HasPrefix(t.S3.Endpoint, "http://") {
			out = append(out, fmt.Sprintf("targets[%d].s3.endpoint: the connection is not encrypted: backups are, and the secret key is not sent, but names and times can be read", i))
		}
	}
	return out
}

// nameForm is the form of names of hosts, sites and targets.
var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
