// Package sshdtest starts OpenSSH's server for a test, with SFTP alone and one account, and a
// line to it that the test can cut, silence and make long.
package sshdtest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/secret"
	"github.com/holdfast/holdfast/internal/testkit/porttest"
)

// program is where every distribution has it; sshd refuses to run by a relative path.
const program = "/usr/sbin/sshd"

// Server is a running server.
type Server struct {
	Address string
	// HostKeys are the keys of the server: ssh-ed25519 and ecdsa-sha2-nistp256.
	HostKeys []ssh.PublicKey
	// SFTP is the server as a configuration of backups names it, with its first key and the folder Dir.
	SFTP backup.SFTP
	Dir  string
	// Stop ends the server; connections that are open stay open.
	Stop func()
}

// Here reports whether OpenSSH's server is installed; where tools are required, a test without it fails.
func Here(t testing.TB) bool {
	t.Helper()
	_, err := os.Stat(program)
	if err != nil && os.Getenv("HOLDFAST_REQUIRE_TOOLS") == "1" {
		t.Fatalf("%s is missing: install the package openssh-server", program)
	}
	return err == nil
}

// Start starts a server on a loopback address; it ends with the test. Dir is the folder of the
// account; empty stands for a new one.
func Start(t testing.TB, ip, dir string) *Server {
	t.Helper()
	if !Here(t) {
		t.Skipf("NOT TESTED: what OpenSSH's own server does, since %s is missing; install the package openssh-server", program)
	}
	me, err := user.Current()
	must(t, err)
	if me.Uid == "0" {
		must(t, os.MkdirAll("/run/sshd", 0o755))
	}
	if dir == "" {
		dir = t.TempDir()
	}
	conf := t.TempDir()
	own, ownSigner := newKey(t, edwards(t))
	first, firstSigner := newKey(t, edwards(t))
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	second, secondSigner := newKey(t, curve)
	write(t, filepath.Join(conf, "first"), first)
	write(t, filepath.Join(conf, "second"), second)
	write(t, filepath.Join(conf, "authorized_keys"), ssh.MarshalAuthorizedKey(ownSigner.PublicKey()))
	port := strconv.Itoa(int(porttest.Free(t)))
	s := &Server{Address: net.JoinHostPort(ip, port), Dir: dir, HostKeys: []ssh.PublicKey{firstSigner.PublicKey(), secondSigner.PublicKey()}}
	s.SFTP = backup.SFTP{
		Server: s.Address, User: me.Username, Path: dir, PrivateKey: secret.Text(own),
		HostKeys: []string{strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.HostKeys[0])))},
	}
	write(t, filepath.Join(conf, "sshd_config"), fmt.Appendf(nil, settings, s.Address, conf, conf, conf, me.Username))
	s.run(t, filepath.Join(conf, "sshd_config"))
	return s
}

// settings let one account in by its key, and give it nothing but files.
const settings = `ListenAddress %s
HostKey %s/first
HostKey %s/second
AuthorizedKeysFile %s/authorized_keys
AllowUsers %s
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile none
DisableForwarding yes
Subsystem sftp internal-sftp
ForceCommand internal-sftp
`

// run starts the program and waits until it speaks.
func (s *Server) run(t testing.TB, config string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		_, err = host.Run(ctx, host.Cmd{Name: program, Args: []string{"-D", "-e", "-f", config}})
	}()
	s.Stop = func() { stop(); <-ended }
	t.Cleanup(s.Stop)
	tries := time.NewTicker(20 * time.Millisecond)
	defer tries.Stop()
	for !s.speaks() {
		select {
		case <-ended:
			t.Fatal(err)
		case <-tries.C:
		}
	}
}

// speaks reports whether the server greets a client.
func (s *Server) speaks() bool {
	c, err := net.DialTimeout("tcp", s.Address, time.Second) //nolint:noctx // it has a limit
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second)) // a connection that was just made takes it
	greeting := make([]byte, 4)
	_, err = c.Read(greeting)
	return err == nil && bytes.Equal(greeting, []byte("SSH-"))
}

func edwards(t testing.TB) crypto.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	return key
}

// newKey returns a key as OpenSSH stores it.
func newKey(t testing.TB, key crypto.Signer) (private []byte, signer ssh.Signer) {
	t.Helper()
	signer, err := ssh.NewSignerFromSigner(key)
	must(t, err)
	block, err := ssh.MarshalPrivateKey(key, "")
	must(t, err)
	return pem.EncodeToMemory(block), signer
}

func write(t testing.TB, file string, text []byte) {
	t.Helper()
	must(t, os.WriteFile(file, text, 0o600))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
