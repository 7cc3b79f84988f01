// Package text shortens and finishes texts for messages.
package text
