"""What was asked and answered: a ledger of ids, answers and receipts; checking and signing of receipts."""
