package ignition

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/vincent-petithory/dataurl"
)

// MaxResourceBytes bounds the unpacked size of one resource, in bytes: a small
// compressed one must not fill the memory of a host.
const MaxResourceBytes = 256 << 20

// Inline reports whether a resource carries its bytes in itself.
func Inline(r types.Resource) bool {
	return r.Source == nil || *r.Source == "" || strings.HasPrefix(*r.Source, "data:")
}

// Contents returns the bytes of an inline resource, unpacked and verified.
// A resource without source has none.
func Contents(r types.Resource) ([]byte, error) {
	if r.Source == nil || *r.Source == "" {
		return nil, nil
	}
	if !Inline(r) {
		return nil, errors.New("source: only data: URLs carry their contents")
	}
	u, err := dataurl.DecodeString(*r.Source)
	if err != nil {
		return nil, errors.New("source: not a data: URL")
	}
	return Unpack(r, u.Data)
}

// Unpack decompresses and verifies the bytes from a resource's source. The hash
// is that of the unpacked bytes, as the specification demands.
func Unpack(r types.Resource, data []byte) ([]byte, error) {
	if r.Compression != nil && *r.Compression == "gzip" {
		var err error
		if data, err = gunzip(data); err != nil {
			return nil, fmt.Errorf("compression: %w", err)
		}
	}
	if err := verify(r.Verification, data); err != nil {
		return nil, fmt.Errorf("verification.hash: %w", err)
	}
	return data, nil
}

func gunzip(data []byte) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(zr, MaxResourceBytes+1))
	if err != nil {
		return nil, err
	}
	if len(out) > MaxResourceBytes {
		return nil, fmt.Errorf("unpacks to more than %d MiB", MaxResourceBytes>>20)
	}
	return out, nil
}

func verify(v types.Verification, data []byte) error {
	function, want, err := v.HashParts()
	if err != nil {
		return err
	}
	var got []byte
	switch function {
	case "":
		return nil
	case "sha256":
		sum := sha256.Sum256(data)
		got = sum[:]
	case "sha512":
		sum := sha512.Sum512(data)
		got = sum[:]
	default:
		return fmt.Errorf("unknown function %q", function)
	}
	if subtle.ConstantTimeCompare([]byte(hex.EncodeToString(got)), []byte(strings.ToLower(want))) != 1 {
		return errors.New("the contents do not match the hash")
	}
	return nil
}
