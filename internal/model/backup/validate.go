package backup

import (
	"crypto/x509"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// invalid returns a mistake without the value, since any value may be a secret in the wrong place.
func invalid(p *field.Path, detail string) *field.Error {
	return field.Invalid(p, field.OmitValueType{}, detail)
}

// mistakes returns all mistakes of a Config.
func (c Config) mistakes(schedule func(text, zone string) error) field.ErrorList {
	var out field.ErrorList
	if schedule != nil && (c.Schedule != "" || c.TimeZone != "") {
		if err := schedule(c.Schedule, c.TimeZone); err != nil {
			out = append(out, invalid(field.NewPath("schedule"), err.Error()))
		}
	}
	if c.Keep < 0 || c.Keep > maxKeep {
		out = append(out, invalid(field.NewPath("keep"), "must be a number from 1 to "+strconv.Itoa(maxKeep)))
	}
	out = append(out, c.recipientMistakes()...)
	return append(out, c.targetMistakes()...)
}

func (c Config) recipientMistakes() field.ErrorList {
	p := field.NewPath("recipients")
	var out field.ErrorList
	if len(c.Recipients) > maxRecipients {
		out = append(out, field.TooMany(p, len(c.Recipients), maxRecipients))
	}
	hybrid := 0
	for i, text := range c.Recipients {
		_, err := Recipient(text)
		switch {
		case strings.HasPrefix(strings.ToUpper(strings.TrimSpace(text)), "AGE-SECRET-KEY-"):
			out = append(out, invalid(p.Index(i), "is a private key, which must not be on the site: anybody who gets at the site could open every backup. "+
				"Make a new pair with age-keygen, and give its public key here"))
		case err != nil:
			out = append(out, invalid(p.Index(i), "must be a public key of age, as age-keygen prints it: age1..."))
		case slices.Index(c.Recipients, text) < i:
			out = append(out, field.Duplicate(p.Index(i), text))
		case strings.HasPrefix(text, hybridPrefix):
			hybrid++
		}
	}
	if hybrid > 0 && hybrid < len(c.Recipients) && len(out) == 0 {
		out = append(out, invalid(p, "must be all of one kind: age does not mix keys that resist quantum computers (age1pq1...) with others"))
	}
	if len(c.Targets) > 0 && len(c.Recipients) == 0 {
		out = append(out, field.Required(p, "there are targets, and backups leave a host only encrypted: give at least one public key of age"))
	}
	return out
}

const hybridPrefix = "age1pq1"

// Recipient reads a public key of age.
func Recipient(text string) (age.Recipient, error) {
	if strings.HasPrefix(text, hybridPrefix) {
		return age.ParseHybridRecipient(text)
	}
	return age.ParseX25519Recipient(text)
}

func (c Config) targetMistakes() field.ErrorList {
	p := field.NewPath("targets")
	var out field.ErrorList
	if len(c.Targets) > maxTargets {
		out = append(out, field.TooMany(p, len(c.Targets), maxTargets))
	}
	for i, t := range c.Targets {
		switch {
		case !nameForm.MatchString(t.Name):
			out = append(out, invalid(p.Index(i).Child("name"), "must be a name of lower case letters, digits and hyphens"))
		case slices.ContainsFunc(c.Targets[:i], func(o Target) bool { return o.Name == t.Name }):
			out = append(out, field.Duplicate(p.Index(i).Child("name"), t.Name))
		}
		out = append(out, t.mistakes(p.Index(i))...)
	}
	return out
}

func (t Target) mistakes(p *field.Path) field.ErrorList {
	kinds := 0
	var out field.ErrorList
	if t.Directory != nil {
		kinds++
		out = append(out, t.Directory.mistakes(p.Child("directory"))...)
	}
	if t.S3 != nil {
		kinds++
		out = append(out, t.S3.mistakes(p.Child("s3"))...)
	}
	if t.SFTP != nil {
		kinds++
		out = append(out, t.SFTP.mistakes(p.Child("sftp"))...)
	}
	if kinds != 1 {
		out = append(out, field.Required(p, "must have exactly one of directory, s3 and sftp"))
	}
	return out
}

// absolute reports whether a path is absolute and has no part such as . or .., and is not "/".
func absolute(p string) bool { return path.IsAbs(p) && path.Clean(p) == p && p != "/" }

func (d Directory) mistakes(p *field.Path) field.ErrorList {
	var out field.ErrorList
	switch {
	case !absolute(d.Path):
		out = append(out, invalid(p.Child("path"), "must be an absolute path without . and .."))
	case d.Path == Dir || strings.HasPrefix(d.Path, Dir+"/"):
		out = append(out, invalid(p.Child("path"), "must not lie in "+Dir+", where the host keeps its own: name another disk or a mount"))
	}
	if d.Marker != "" && (path.Base(d.Marker) != d.Marker || d.Marker == "." || d.Marker == "..") {
		out = append(out, invalid(p.Child("marker"), "must be the name of a file in the folder"))
	}
	return out
}

var bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

func (s S3) mistakes(p *field.Path) field.ErrorList {
	var out field.ErrorList
	u, err := url.Parse(s.Endpoint)
	switch {
	case err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		out = append(out, invalid(p.Child("endpoint"), "must be a URL of a server alone, such as https://s3.example.com"))
	case u.User != nil:
		out = append(out, invalid(p.Child("endpoint"), "must hold no user and no password: give accessKey and secretKey"))
	}
	if !bucketForm.MatchString(s.Bucket) {
		out = append(out, invalid(p.Child("bucket"), "must be the name of a bucket: 3 to 63 lower case letters, digits, dots and hyphens"))
	}
	if strings.HasPrefix(s.Prefix, "/") || s.Prefix != "" && path.Clean(s.Prefix) != strings.TrimSuffix(s.Prefix, "/") {
		out = append(out, invalid(p.Child("prefix"), "must be a path that begins with no / and has no . and .."))
	}
	if s.AccessKey == "" {
		out = append(out, field.Required(p.Child("accessKey"), ""))
	}
	if s.SecretKey == "" {
		out = append(out, field.Required(p.Child("secretKey"), ""))
	}
	if s.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(s.CA)) {
		out = append(out, invalid(p.Child("ca"), "holds no certificate in PEM"))
	}
	return out
}

func (s SFTP) mistakes(p *field.Path) field.ErrorList {
	var out field.ErrorList
	if _, err := s.Address(); err != nil {
		out = append(out, invalid(p.Child("server"), "must be a host or an address, with a port if it is not 22; an IPv6 address with a port in brackets"))
	}
	if s.User == "" || strings.ContainsAny(s.User, " @:/\n") {
		out = append(out, invalid(p.Child("user"), "must be the name of an account"))
	}
	if !absolute(s.Path) {
		out = append(out, invalid(p.Child("path"), "must be an absolute path without . and .."))
	}
	if len(s.HostKeys) == 0 {
		out = append(out, field.Required(p.Child("hostKeys"), "without the key of the server nobody knows whose disk it is: compare what ssh-keyscan prints with the server's own keys"))
	}
	for i, text := range s.HostKeys {
		if _, err := ParseHostKey(text); err != nil {
			out = append(out, invalid(p.Child("hostKeys").Index(i), "must be one public key of the server, such as ssh-ed25519 AAAA..., its line of known_hosts, or its fingerprint SHA256:..."))
		}
	}
	return append(out, s.accessMistakes(p)...)
}

func (s SFTP) accessMistakes(p *field.Path) field.ErrorList {
	switch {
	case (s.Password == "") == (s.PrivateKey == ""):
		return field.ErrorList{field.Required(p, "must have exactly one of password and privateKey")}
	case s.PrivateKey == "":
		return nil
	}
	if _, err := ssh.ParsePrivateKey([]byte(s.PrivateKey.Reveal())); err != nil {
		return field.ErrorList{invalid(p.Child("privateKey"), "must be a private key of OpenSSH without a passphrase: no person is there to type one")}
	}
	return nil
}
