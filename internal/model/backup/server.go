package backup

import (
	"errors"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
)

// sshPort is the default port of an SSH server.
const sshPort = 22

// HostKey is a key of a server that a configuration trusts.
type HostKey struct {
	// Kind is the kind of the key; a fingerprint does not tell it.
	Kind        string
	Fingerprint string
}

// fingerprintForm is the form in which ssh-keygen -l and hosters print a fingerprint.
var fingerprintForm = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`)

// ParseHostKey reads one key of a server: a public key, a line of known_hosts or of ssh-keyscan with
// one, or its fingerprint.
func ParseHostKey(text string) (HostKey, error) {
	if text = strings.TrimSpace(text); fingerprintForm.MatchString(text) {
		return HostKey{Fingerprint: text}, nil
	}
	marker, _, key, _, rest, err := ssh.ParseKnownHosts([]byte(text))
	if err != nil {
		key, _, _, rest, err = ssh.ParseAuthorizedKey([]byte(text))
	}
	switch {
	case err != nil:
		return HostKey{}, err
	case marker != "":
		return HostKey{}, errors.New("the line is not about a key of a server")
	case len(strings.TrimSpace(string(rest))) > 0:
		return HostKey{}, errors.New("there is more than one key")
	}
	return HostKey{Kind: key.Type(), Fingerprint: ssh.FingerprintSHA256(key)}, nil
}

// Address returns host and port of a server in the form that a dialer takes.
func (s SFTP) Address() (string, error) {
	if a, err := netip.ParseAddr(strings.Trim(s.Server, "[]")); err == nil {
		return netip.AddrPortFrom(a, sshPort).String(), nil
	}
	if ap, err := netip.ParseAddrPort(s.Server); err == nil && ap.Port() > 0 {
		return ap.String(), nil
	}
	host, port, hasPort := strings.Cut(s.Server, ":")
	number := sshPort
	if hasPort {
		var err error
		if number, err = strconv.Atoi(port); err != nil || number < 1 || number > 65535 {
			return "", errors.New("the port is not valid")
		}
	}
	if !nameForm.MatchString(strings.ToLower(host)) {
		return "", errors.New("the host is not valid")
	}
	return host + ":" + strconv.Itoa(number), nil
}
