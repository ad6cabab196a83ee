// Package jointoken makes and checks the secret with which a host asks the
// configuration server for its role's configuration.
//
// A token is a JSON Web Token signed by HMAC-SHA256 with a key that only the
// installer and the control planes hold. It names one role and the moment at
// which it ends. It may be used more than once before that: a host whose power
// was cut in its first boot asks again, and one pointer configuration serves
// all hosts of a role. What limits a stolen token is its short life, its role,
// and a new key.
package jointoken

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/holdfast/holdfast/internal/state"
)

// MinKeyBytes is the shortest key that Mint and Verify take, in bytes: the
// length of the hash, as RFC 7518 section 3.2 demands.
const MinKeyBytes = 32

// MaxLength is the longest token that Verify looks at, in bytes.
const MaxLength = 1024

// The reasons for which a token is refused. None of them tells anything of
// the token or the key.
var (
	// ErrInvalid says that the token is none, or not signed with the key.
	ErrInvalid = errors.New("the join token is not one of this cluster's")
	// ErrExpired says that the token is genuine and its time is over.
	ErrExpired = errors.New("the join token has expired")
	// ErrRole says that the token is genuine and for another role.
	ErrRole = errors.New("the join token is for another role")
)

// Claims is what a token says.
type Claims struct {
	Role state.Role
	// Expires is the first moment at which the token is refused, to the second.
	Expires time.Time
	// Nonce tells tokens of the same role and end apart, in a log say. It is
	// no secret.
	Nonce string
}

// wire is a token's payload.
type wire struct {
	Role state.Role `json:"role"`
	jwt.RegisteredClaims
}

// audience keeps a token from being taken for one of another purpose that
// were signed with the same key.
const audience = "holdfast-config"

// Mint returns a signed token. The same claims and key give the same token.
// The error says that the key is too short or a claim is missing.
func Mint(key []byte, c Claims) (string, error) {
	if len(key) < MinKeyBytes {
		return "", fmt.Errorf("mint join token: the key has %d bytes, it needs %d", len(key), MinKeyBytes)
	}
	if c.Role == "" || c.Expires.IsZero() {
		return "", errors.New("mint join token: role and expiry are needed")
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, wire{
		Role: c.Role,
		RegisteredClaims: jwt.RegisteredClaims{
			Audience:  jwt.ClaimStrings{audience},
			ExpiresAt: jwt.NewNumericDate(c.Expires),
			ID:        c.Nonce,
		},
	}).SignedString(key)
}

// Verify checks that a token was minted with the key for this role and has
// not ended at now. It returns ErrInvalid, ErrExpired or ErrRole, or nil.
func Verify(key []byte, token string, role state.Role, now time.Time) error {
	claims, err := Read(key, token, now)
	switch {
	case err != nil:
		return err
	case claims.Role != role:
		return ErrRole
	}
	return nil
}

// Read checks a token as Verify does, for any role, and returns its claims.
func Read(key []byte, token string, now time.Time) (Claims, error) {
	if len(key) < MinKeyBytes || len(token) > MaxLength {
		return Claims{}, ErrInvalid
	}
	var w wire
	_, err := jwt.ParseWithClaims(token, &w,
		func(*jwt.Token) (any, error) { return key, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Name}),
		jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithExpirationRequired(),
		jwt.WithAudience(audience),
		jwt.WithStrictDecoding())
	switch {
	case onlyExpired(err):
		return Claims{}, ErrExpired
	case err != nil || w.Role == "":
		return Claims{}, ErrInvalid
	}
	return Claims{Role: w.Role, Expires: w.ExpiresAt.Time, Nonce: w.ID}, nil
}

// onlyExpired reports whether a genuine token is refused for its age. The
// library checks the signature before the claims.
func onlyExpired(err error) bool {
	return errors.Is(err, jwt.ErrTokenExpired) && !errors.Is(err, jwt.ErrTokenInvalidAudience)
}
