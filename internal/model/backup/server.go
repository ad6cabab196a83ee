package backup

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
)

// sshPort is the default port of an SSH server.
const sshPort = 22

// HostKey reads one public key of a server.
func HostKey(text string) (ssh.PublicKey, error) {
	key, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(text))
	if err == nil && len(strings.TrimSpace(string(rest))) > 0 {
		err = errors.New("there is more than one key")
	}
	return key, err
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
