package archive

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/holdfast/holdfast/internal/model/backup"
)

// ageMagic begins every file of age.
const ageMagic = "age-encryption.org/"

// Encrypt encrypts r to all recipients and writes that to w. It returns the SHA-256 of the
// bytes that it read, and the size and SHA-256 of those that it wrote. It closes neither.
func Encrypt(ctx context.Context, w io.Writer, r io.Reader, recipients []string) (plain string, sent backup.File, err error) {
	var to []age.Recipient
	for i, text := range recipients {
		one, err := backup.Recipient(text)
		if err != nil {
			return "", backup.File{}, fmt.Errorf("recipient %d is no public key of age", i+1)
		}
		to = append(to, one)
	}
	if len(to) == 0 {
		return "", backup.File{}, errors.New("there is no recipient to encrypt to")
	}
	in, out := sha256.New(), &counted{sum: sha256.New(), to: w}
	crypt, err := age.Encrypt(out, to...)
	if err != nil {
		return "", backup.File{}, fmt.Errorf("encrypt: %w", err)
	}
	if _, err := io.Copy(crypt, io.TeeReader(reader{ctx, r}, in)); err != nil {
		return "", backup.File{}, fmt.Errorf("encrypt: %w", err)
	}
	if err := crypt.Close(); err != nil {
		return "", backup.File{}, fmt.Errorf("encrypt: %w", err)
	}
	return hexOf(in.Sum(nil)), backup.File{Size: out.n, SHA256: hexOf(out.sum.Sum(nil))}, nil
}

// counted counts and hashes the bytes that pass through it.
type counted struct {
	n   int64
	sum interface {
		io.Writer
		Sum(b []byte) []byte
	}
	to io.Writer
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	_, _ = c.sum.Write(p[:n]) // never fails
	return n, err
}

// Errors about keys.
var (
	// ErrNoIdentity is returned for an encrypted archive if no key was given.
	ErrNoIdentity = errors.New("the archive is encrypted: give the file with the private key of age, --identity FILE")
	// ErrWrongIdentity is returned if no given key opens the archive.
	ErrWrongIdentity = errors.New("none of the private keys opens the archive")
)

// Open reads and compares a whole archive, encrypted or not. identity is the text of a file
// with private keys of age, empty for none. take may be nil. The errors are those of Read,
// ErrNoIdentity and ErrWrongIdentity.
func Open(ctx context.Context, r io.Reader, identity string, take Take) (Manifest, error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	start, err := buffered.Peek(len(ageMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return Manifest{}, err
	}
	if string(start) != ageMagic {
		return Read(ctx, buffered, take)
	}
	if identity == "" {
		return Manifest{}, ErrNoIdentity
	}
	keys, err := identities(identity)
	if err != nil {
		return Manifest{}, err
	}
	plain, err := age.Decrypt(reader{ctx, buffered}, keys...)
	if _, other := errors.AsType[*age.NoIdentityMatchError](err); other {
		return Manifest{}, ErrWrongIdentity
	}
	if err != nil {
		return Manifest{}, unreadable(ctx, err)
	}
	return Read(ctx, plain, take)
}

// OpenFile does the same as Open for the archive in a file.
func OpenFile(ctx context.Context, file, identity string, take Take) (Manifest, error) {
	f, err := os.Open(file)
	if err != nil {
		return Manifest{}, err
	}
	defer func() { _ = f.Close() }()
	m, err := Open(ctx, f, identity, take)
	if err != nil {
		return Manifest{}, fmt.Errorf("open %s: %w", file, err)
	}
	return m, nil
}

// identities reads private keys. Its errors quote nothing, since a line may be a key.
func identities(text string) ([]age.Identity, error) {
	keys, err := age.ParseIdentities(strings.NewReader(text))
	if err != nil {
		return nil, errors.New("the file of --identity holds no private keys of age, as age-keygen writes them")
	}
	return keys, nil
}
